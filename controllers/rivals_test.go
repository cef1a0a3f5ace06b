package controllers_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// checkFree is shown every region Lease that an operator wrote, in every test, at once: no operator ever takes a region from
// a session that lives.
func (b *bench) checkFree(sent *coordinationv1.Lease) {
	var holder string
	for until := time.Now().Add(5 * time.Second); ; <-time.After(5 * time.Millisecond) {
		was, seen := b.nodes.leases.holderAt(sent)
		if seen {
			holder = was
			break
		}
		if time.Now().After(until) {
			b.Errorf("nobody saw version %s of %s, on top of which it was written", sent.ResourceVersion, sent.Name)
			return
		}
	}
	if holder == "" || *sent.Spec.HolderIdentity == holder {
		return
	}
	node, incarnation, err := v1alpha1.ParseSessionID(holder)
	if err != nil {
		return
	}
	session := &coordinationv1.Lease{}
	if err := b.client.Get(context.Background(), b.key(node), session); err != nil {
		b.Errorf("reading the session of %s: %v", holder, err)
		return
	}
	// A session that is over never comes back, so that it is over now proves nothing less than that it lives would.
	if *session.Spec.LeaseTransitions == incarnation && *session.Spec.HolderIdentity != "" {
		b.Errorf("%s was taken from the live session %s and given to %q", sent.Name, holder, *sent.Spec.HolderIdentity)
	}
	b.freed.Add(1)
}

// gate holds up what watches of Leases tell, while it is closed.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when open
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *gate) wait() {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	<-opened
}

// spoil is for a wire.
func (g *gate) spoil(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	response, err := send()
	if err == nil && strings.HasSuffix(req.URL.Path, "/leases") && strings.Contains(req.URL.RawQuery, "watch=true") {
		response.Body = gated{response.Body, g}
	}
	return response, err
}

// gated is what a watch tells, behind a gate.
type gated struct {
	io.ReadCloser
	gate *gate
}

func (r gated) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.gate.wait()
	return n, err
}

// One operator's cache of Leases stands still while regions move, a node dies and comes back, and another operator, that
// nobody elected, acts at the same time.
func TestAStaleCacheAndASecondOperatorTakeNoRegionFromALiveNode(t *testing.T) {
	b := newBench(t)
	world := b.mortal(16, 16, 4)
	world.Spec.Assignment = quarters()
	b.apply(world)
	b.stop()
	g := newGate()
	b.wire = &wire{done: b.checkFree, spoil: g.spoil}
	b.startOperator()
	stopFirst := b.stop
	b.wire = &wire{done: b.checkFree}
	b.startOperator()
	stopSecond := b.stop
	b.stop = func() { g.open(); stopFirst(); stopSecond() }

	b.settled()
	g.shut()
	check := b.watchEpochs()
	b.edit(exchange)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	b.nodes.freeze("genesis-zone-1")
	b.awaitRevoked("genesis-zone-1")
	b.await("the regions of the dead node to be taken", func() (bool, string) {
		holders := b.nodes.leases.holders()
		return holders["genesis-zone-1"] == 0 && holders[""] == 0, describe(b.get())
	})
	b.nodes.thaw("genesis-zone-1")
	b.await("the regions to come home", func() (bool, string) {
		return b.nodes.leases.holders()["genesis-zone-1"] == 64, describe(b.get())
	})
	g.open()
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	check()
	if b.freed.Load() < 64 {
		t.Errorf("%d regions were seen to be freed, want those of the dead node", b.freed.Load())
	}
	b.settled()
	b.quiet(5 * time.Second)
}
