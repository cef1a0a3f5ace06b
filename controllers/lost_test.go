package controllers_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// region is a region Lease, nil if there is none.
func (b *bench) region(name string) *coordinationv1.Lease {
	for _, lease := range b.regions() {
		if lease.Name == name {
			return &lease
		}
	}
	return nil
}

func TestALostRegionLeaseIsMadeAgainHeldByItsHolder(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(2, 2, 2))
	b.settled()
	highest, was := b.get().Status.HighestEpoch, b.region("genesis-r-0-0")
	b.remove(was)
	b.await("the region lease", func() (bool, string) { return b.region("genesis-r-0-0") != nil, "missing" })
	lease := b.region("genesis-r-0-0")
	if *lease.Spec.HolderIdentity != *was.Spec.HolderIdentity || *lease.Spec.LeaseTransitions != highest+1 {
		t.Errorf("held by %s at epoch %d, want %s above %d", *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions, *was.Spec.HolderIdentity, highest)
	}
	b.await("highestEpoch", func() (bool, string) { now := b.get().Status.HighestEpoch; return now > highest+1, fmt.Sprint(now) })
}

func TestALostRegionLeaseThatANewOperatorFindsIsOrderedAfterTwoDurations(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(2, 2, 2))
	b.settled()
	b.stop()
	b.remove(b.region("genesis-r-0-0"))
	b.startOperator()
	b.awaitCondition(v1alpha1.ConditionRegionsOwned, metav1.ConditionFalse, v1alpha1.ReasonRegionsUnowned)
	began := time.Now()
	if m := b.message(v1alpha1.ConditionRegionsOwned); !strings.Contains(m, "nobody knows who held them") {
		t.Errorf("message %q does not say what it waits for", m)
	}
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	if waited := time.Since(began); waited < 2*leaseDuration-time.Second {
		t.Errorf("taken after %s, want at least %s", waited, 2*leaseDuration)
	}
}

// awaitSuccessor waits until a node has a session Lease again after a deletion, then until somebody else may take it, and
// returns how long the whole took. Until then its regions must stay with the session that may act on.
func (b *bench) awaitSuccessor(node, session string) time.Duration {
	b.Helper()
	removed := time.Now()
	b.remove(b.lease(node))
	b.await("the session lease", func() (bool, string) {
		return b.client.Get(context.Background(), b.key(node), &coordinationv1.Lease{}) == nil, ""
	})
	held := 0
	b.await("the end of the lost session", func() (bool, string) {
		if holder := *b.lease(node).Spec.HolderIdentity; holder != v1alpha1.LostHolder {
			return true, holder
		}
		held = 0
		for _, lease := range b.regions() {
			if *lease.Spec.HolderIdentity == session {
				held++
			}
		}
		return false, fmt.Sprintf("%d regions held", held)
	})
	if held != 2 {
		b.Errorf("%s held %d regions when it was last known lost, want 2", session, held)
	}
	return time.Since(removed)
}

func TestALostSessionIsOverAfterAFullDurationAndNoNumberIsUsedTwice(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(2, 2, 2))
	b.settled()
	highest := b.get().Status.HighestEpoch
	b.nodes.freeze("genesis-zone-0") // it does not know that its session lease is gone, and acts until its deadline
	if waited := b.awaitSuccessor("genesis-zone-0", "genesis-zone-0#1"); waited < leaseDuration {
		t.Errorf("over after %s, want at least %s", waited, leaseDuration)
	}
	if incarnation := *b.lease("genesis-zone-0").Spec.LeaseTransitions; incarnation <= highest {
		t.Errorf("the lives are counted on from %d, want above %d", incarnation, highest)
	}
	b.awaitEvents("LeasesRecreated", "SessionRevoked", "RegionsFreed")
	b.nodes.thaw("genesis-zone-0")
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}

func TestALostSessionThatANewOperatorFindsIsWaitedForAFullDurationFromItsStart(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(2, 2, 2))
	b.settled()
	b.stop()
	b.nodes.freeze("genesis-zone-0")
	lost := b.lease("genesis-zone-0")
	b.remove(lost)
	time.Sleep(leaseDuration / 2) // real time: part of the duration has passed when the wait below begins
	began := time.Now()
	b.startOperator()
	b.awaitCondition(v1alpha1.ConditionRegionsOwned, metav1.ConditionFalse, v1alpha1.ReasonSessionSilent)
	b.awaitRevoked("genesis-zone-0")
	if waited := time.Since(began); waited < leaseDuration {
		t.Errorf("over after %s, want at least %s", waited, leaseDuration)
	}
}

func TestAWriteThatIsNeverAnsweredHoldsNoFailover(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(2, 2, 2))
	var stuck atomic.Bool
	b.wire.set(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if req.Method == http.MethodPut && strings.HasSuffix(req.URL.Path, "/leases/genesis-zone-1") && stuck.CompareAndSwap(false, true) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		return send()
	})
	b.nodes.freeze("genesis-zone-1")
	b.awaitRevoked("genesis-zone-1")
	if !stuck.Load() {
		t.Error("no write was stuck")
	}
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}
