package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const leaseDuration = 10 * time.Second

func extract(list client.ObjectList) ([]client.Object, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("taking a list apart: %w", err)
	}
	var objects []client.Object
	for _, item := range items {
		objects = append(objects, item.(client.Object))
	}
	return objects, nil
}

// awaitRevoked waits until a node has no session and returns when that was first seen.
func (b *bench) awaitRevoked(node string) time.Time {
	b.Helper()
	b.await("the revocation of "+node, func() (bool, string) {
		lease := b.lease(node)
		return *lease.Spec.HolderIdentity == "", *lease.Spec.HolderIdentity
	})
	return time.Now()
}

func TestASilentNodeIsRevokedAfterAFullDurationAndItsRegionsFoundHeirs(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(4, 4, 4))
	renewed := b.nodes.freeze("genesis-zone-1")
	b.awaitCondition(v1alpha1.ConditionRegionsOwned, metav1.ConditionFalse, v1alpha1.ReasonSessionRevoked)
	if waited := b.lease("genesis-zone-1").Spec.RenewTime.Sub(renewed); waited < leaseDuration {
		t.Errorf("revoked %s after its last renewal, want at least %s", waited, leaseDuration)
	}
	world := b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	if world.Status.Regions.Away != 4 {
		t.Errorf("%d regions are away, want 4", world.Status.Regions.Away)
	}
	for _, row := range world.Status.ZoneNodes {
		if row.Ordinal != 1 && (row.Regions < 5 || row.Regions > 6) {
			t.Errorf("node %d has %d regions, want 5 or 6", row.Ordinal, row.Regions)
		}
	}
	b.awaitEvents("NodeSilent", "SessionRevoked", "RegionsFreed", "RegionsTakenOver")
	b.nodes.thaw("genesis-zone-1")
	b.await("a new life of the node", func() (bool, string) {
		return *b.lease("genesis-zone-1").Spec.HolderIdentity != "", ""
	})
	world = b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	if _, _, moved := b.nodes.leases.counts(); moved != 4 || world.Status.Regions.Away != 0 {
		t.Errorf("%d regions went home by a move and %d are away, want 4 and none", moved, world.Status.Regions.Away)
	}
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}

func TestFreedRegionsWaitForTheirNode(t *testing.T) {
	b := newBench(t)
	world := b.mortal(4, 4, 2)
	world.Spec.Failover.RedistributionDelaySeconds = new(int32(300))
	b.apply(world)
	orders := b.orders()
	b.nodes.freeze("genesis-zone-1")
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSessionRevoked)
	if m := b.message(v1alpha1.ConditionReady); !strings.Contains(m, "wait for it until 20") {
		t.Errorf("message %q does not say until when", m)
	}
	b.nodes.thaw("genesis-zone-1")
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	for name, order := range b.orders() {
		if orders[name] != order {
			t.Errorf("%s was ordered from %s to %s", name, orders[name], order)
		}
	}
}

func TestAnEndedPodIsRevokedAtOnce(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(4, 4, 2))
	b.nodes.halt()
	renewed := b.nodes.freeze("genesis-zone-0")
	pod := &corev1.Pod{}
	b.exists(pod, "genesis-zone-0")
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "Error", StartedAt: metav1.Now(), FinishedAt: metav1.NewTime(time.Now().Add(time.Second)),
	}}
	if err := b.client.Status().Update(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	b.awaitRevoked("genesis-zone-0")
	if waited := b.lease("genesis-zone-0").Spec.RenewTime.Sub(renewed); waited >= leaseDuration {
		t.Errorf("revoked %s after the last renewal, though the pod had ended", waited)
	}
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}

func TestADeletedPodIsRevokedAtOnce(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(4, 4, 2))
	b.nodes.halt()
	renewed := b.nodes.freeze("genesis-zone-0")
	pod := &corev1.Pod{}
	b.exists(pod, "genesis-zone-0")
	ctx := context.Background()
	pod.Finalizers = []string{"example.com/grace"} // pods without a machine have none of their own
	if err := errors.Join(b.client.Update(ctx, pod), b.client.Delete(ctx, pod)); err != nil {
		t.Fatal(err)
	}
	b.exists(pod, "genesis-zone-0")
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "Error", StartedAt: metav1.Now(), FinishedAt: metav1.NewTime(time.Now().Add(time.Second)),
	}}
	// A kubelet reports the end and removes the pod at once.
	if err := b.client.Status().Update(ctx, pod); err != nil {
		t.Fatal(err)
	}
	pod.Finalizers = nil
	if err := b.client.Update(ctx, pod); err != nil {
		t.Fatal(err)
	}
	b.awaitRevoked("genesis-zone-0")
	if waited := b.lease("genesis-zone-0").Spec.RenewTime.Sub(renewed); waited >= leaseDuration {
		t.Errorf("revoked %s after the last renewal, though the pod had ended", waited)
	}
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}

func TestAPodThatIsForgottenByForceProvesNothing(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(4, 4, 2))
	b.nodes.halt()
	renewed := b.nodes.freeze("genesis-zone-0")
	pod := &corev1.Pod{}
	b.exists(pod, "genesis-zone-0")
	if err := b.client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	b.awaitRevoked("genesis-zone-0")
	if waited := b.lease("genesis-zone-0").Spec.RenewTime.Sub(renewed); waited < leaseDuration {
		t.Errorf("revoked %s after the last renewal, though nobody knows whether the process has ended", waited)
	}
}

func TestANewOperatorWatchesForAFullDurationBeforeItRevokes(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(2, 2, 2))
	b.nodes.freeze("genesis-zone-1")
	b.awaitCondition(v1alpha1.ConditionRegionsOwned, metav1.ConditionFalse, v1alpha1.ReasonSessionSilent)
	b.stop()
	restarted := time.Now()
	b.startOperator()
	if seen := b.awaitRevoked("genesis-zone-1"); seen.Sub(restarted) < leaseDuration {
		t.Errorf("revoked %s after the operator came, want at least %s", seen.Sub(restarted), leaseDuration)
	}
}

func TestTimeInWhichTheOperatorCouldNotReadDoesNotCount(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(2, 2, 2))
	b.nodes.freeze("genesis-zone-1")
	b.awaitCondition(v1alpha1.ConditionRegionsOwned, metav1.ConditionFalse, v1alpha1.ReasonSessionSilent)
	b.wire.set(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/leases") && !strings.Contains(req.URL.RawQuery, "watch") {
			return answer(req, http.StatusServiceUnavailable), nil
		}
		return send()
	})
	<-time.After(2 * leaseDuration) // an outage lasts as long as it lasts
	if *b.lease("genesis-zone-1").Spec.HolderIdentity == "" {
		t.Fatal("revoked without having read anything")
	}
	back := time.Now()
	b.wire.set(nil)
	if seen := b.awaitRevoked("genesis-zone-1"); seen.Sub(back) < leaseDuration {
		t.Errorf("revoked %s after the outage, want at least %s", seen.Sub(back), leaseDuration)
	}
}

// answer is what an API server in trouble says.
func answer(req *http.Request, code int) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"spoilt","reason":%q,"code":%d}`, reasonOf(code), code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: req, Header: http.Header{"Content-Type": {"application/json"}},
		ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func reasonOf(code int) metav1.StatusReason {
	if code == http.StatusConflict {
		return metav1.StatusReasonConflict
	}
	return metav1.StatusReasonInternalError
}

// Every third write is spoilt: done and answered by 500, refused by 409, or not done and answered by 500. The World comes
// up all the same, and no region is ever taken from a live session nor an epoch lowered.
func TestLostAndWrongAnswersDelayAndBreakNothing(t *testing.T) {
	b := newBench(t)
	b.wire.set(spoilEveryThird(1))
	check := b.watchEpochs()
	b.apply(b.mortal(4, 4, 2))
	b.nodes.freeze("genesis-zone-1")
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionFalse, v1alpha1.ReasonHolderAway)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	check()
}

// spoilEveryThird spoils a third of the writes, as luck has it.
func spoilEveryThird(seed uint64) func(*http.Request, func() (*http.Response, error)) (*http.Response, error) {
	random, mu := rand.New(rand.NewPCG(seed, 2)), sync.Mutex{}
	return func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		mu.Lock()
		luck := random.IntN(9)
		mu.Unlock()
		if req.Method == http.MethodGet || strings.Contains(req.URL.Path, "events.k8s.io") || luck > 2 {
			return send()
		}
		if luck == 0 {
			if response, err := send(); err == nil {
				response.Body.Close()
			}
			return answer(req, http.StatusInternalServerError), nil
		}
		return answer(req, []int{http.StatusConflict, http.StatusInternalServerError}[luck-1]), nil
	}
}

// watchEpochs looks at all region leases until the returned check is called, which fails if an epoch fell or if a holder
// changed without its epoch.
func (b *bench) watchEpochs() (check func()) {
	type record struct {
		holder string
		epoch  int32
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	seen := map[string]record{}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, lease := range b.regions() {
				now := record{*lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions}
				was := seen[lease.Name]
				if now.epoch < was.epoch || was.holder != "" && now.holder != "" && now.holder != was.holder && now.epoch == was.epoch {
					b.Errorf("%s went from %v to %v", lease.Name, was, now)
				}
				seen[lease.Name] = now
			}
			<-time.After(50 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-done }
}

// The operator is stopped after each number of writes, wherever that is, and another goes on.
func TestAnOperatorThatDiesMidwayIsContinued(t *testing.T) {
	b := newBench(t)
	var writes, limit int
	mu := sync.Mutex{}
	b.wire.set(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if req.Method != http.MethodGet {
			if writes++; writes > limit {
				return answer(req, http.StatusInternalServerError), nil // as good as dead
			}
		}
		return send()
	})
	check := b.watchEpochs()
	b.create(b.mortal(2, 2, 2))
	for _, stop := range []int{1, 3, 6, 9, 12, 16, 20} {
		b.await("the operator's end", func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			return writes > limit || b.get().Status.Regions.Summary == "4/4", fmt.Sprint(writes)
		})
		b.stop()
		mu.Lock()
		writes, limit = 0, stop
		mu.Unlock()
		b.startOperator()
	}
	b.wire.set(nil)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	check()
}
