package controllers_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// closedFor is a maintenance spec with a daily window of an hour that opens after at least that long, on the minute.
func closedFor(wait time.Duration) *v1alpha1.MaintenanceSpec {
	at := time.Now().UTC().Add(wait + time.Minute)
	return &v1alpha1.MaintenanceSpec{Windows: []v1alpha1.MaintenanceWindow{
		{Name: "nightly", Cron: fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()), DurationSeconds: 3600},
	}}
}

// quarters gives each of four nodes a quarter of 16 x 16 regions.
func quarters() v1alpha1.AssignmentSpec {
	return v1alpha1.AssignmentSpec{Policy: v1alpha1.AssignmentManual, Areas: []v1alpha1.Area{
		{Width: 8, Height: 8}, {Ordinal: 1, Column: 8, Width: 8, Height: 8}, {Ordinal: 2, Row: 8, Width: 8, Height: 8}, {Ordinal: 3, Column: 8, Row: 8, Width: 8, Height: 8},
	}}
}

// exchange moves 64 of the 256 regions: each node gives 16 to the next.
func exchange(w *v1alpha1.World) {
	w.Spec.Assignment.Areas = append(w.Spec.Assignment.Areas,
		v1alpha1.Area{Ordinal: 1, Column: 6, Width: 2, Height: 8}, v1alpha1.Area{Ordinal: 3, Column: 8, Row: 6, Width: 8, Height: 2},
		v1alpha1.Area{Ordinal: 2, Column: 8, Row: 8, Width: 2, Height: 8}, v1alpha1.Area{Ordinal: 0, Row: 8, Width: 8, Height: 2})
}

// gives is a World of one row in which node 0 gives its second region of two to node 1 when edited by give.
func (b *bench) gives() *v1alpha1.World {
	world := b.mortal(4, 1, 2)
	world.Spec.Assignment = v1alpha1.AssignmentSpec{Policy: v1alpha1.AssignmentManual, Areas: []v1alpha1.Area{{Width: 2}, {Ordinal: 1, Column: 2, Width: 2}}}
	return world
}

func give(w *v1alpha1.World) {
	w.Spec.Assignment.Areas = append(w.Spec.Assignment.Areas, v1alpha1.Area{Ordinal: 1, Column: 1})
}

const given = "genesis-r-1-0"

func (b *bench) awaitTarget(lease, node string) {
	b.Helper()
	b.await(lease+" to be ordered to "+node, func() (bool, string) {
		return b.lease(lease).Annotations[v1alpha1.AnnotationTarget] == node, describe(b.get())
	})
}

func (b *bench) epochs() map[string]int32 {
	b.Helper()
	epochs := map[string]int32{}
	for _, lease := range b.regions() {
		epochs[lease.Name] = *lease.Spec.LeaseTransitions
	}
	return epochs
}

func TestAnEditMovesAQuarterOfTheWorldFourRegionsAtATime(t *testing.T) {
	b := newBench(t)
	world := b.world(16, 16, 4)
	world.Spec.Assignment = quarters()
	b.apply(world)
	epochs := b.epochs()
	check := b.watchEpochs()
	b.edit(exchange)
	ready := true
	seen := map[string]bool{}
	b.await("64 regions to move", func() (bool, string) {
		world := b.get()
		ready = ready && meta.IsStatusConditionTrue(world.Status.Conditions, v1alpha1.ConditionReady)
		c := meta.FindStatusCondition(world.Status.Conditions, v1alpha1.ConditionAssignmentConverged)
		seen[c.Reason] = true
		if m := world.Status.Moves; m != nil && (m.Planned != 64 || m.EstimatedSeconds < 16 || m.Moved > 64) {
			t.Errorf("moves: %+v", *m)
		}
		return c.Status == metav1.ConditionTrue && world.Status.ObservedGeneration == world.Generation, describe(world)
	})
	check()
	if _, most, moved := b.nodes.leases.counts(); most != 4 || moved != 64 {
		t.Errorf("%d moves, up to %d at once; want 64, 4 at once", moved, most)
	}
	if !ready || !seen[v1alpha1.ReasonMoving] {
		t.Errorf("ready throughout: %t; reasons of AssignmentConverged: %v", ready, seen)
	}
	risen := 0
	for name, epoch := range b.epochs() {
		if epoch == epochs[name]+1 {
			risen++
		} else if epoch != epochs[name] {
			t.Errorf("the epoch of %s went from %d to %d", name, epochs[name], epoch)
		}
	}
	if want := map[string]int{"genesis-zone-0": 64, "genesis-zone-1": 64, "genesis-zone-2": 64, "genesis-zone-3": 64}; risen != 64 || !maps.Equal(b.nodes.leases.holders(), want) {
		t.Errorf("%d epochs rose; regions by holder: %v", risen, b.nodes.leases.holders())
	}
	b.awaitEvents("RegionsOrdered", "RegionsMoved", "AssignmentConverged")
	b.settled()
	b.quiet(10 * time.Second)
}

func TestAnEditIsContinuedByTheNextOperator(t *testing.T) {
	b := newBench(t)
	world := b.world(16, 16, 4)
	world.Spec.Assignment = quarters()
	b.apply(world)
	b.edit(exchange)
	for _, part := range []int{8, 24, 40} {
		b.await(fmt.Sprintf("%d moves", part), func() (bool, string) {
			_, _, moved := b.nodes.leases.counts()
			return moved >= part, describe(b.get())
		})
		b.stop()
		b.startOperator()
	}
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	if _, most, moved := b.nodes.leases.counts(); most > 4 || moved != 64 {
		t.Errorf("%d moves, up to %d at once; want 64, at most 4 at once", moved, most)
	}
}

// Each operator's life ends at one of its writes, which is done or not: nobody tells. The next one goes on.
func TestAnOperatorThatDiesAtAnyWriteOfAnEditIsContinued(t *testing.T) {
	b := newBench(t)
	world := b.world(8, 4, 2)
	world.Spec.Assignment = v1alpha1.AssignmentSpec{Policy: v1alpha1.AssignmentManual, Areas: []v1alpha1.Area{{Width: 8, Height: 4}, {Ordinal: 1, Column: 4, Width: 4, Height: 4}}}
	b.apply(world)
	b.settled()
	var mu sync.Mutex
	var writes, limit int
	b.wire.set(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		mu.Lock()
		counts := req.Method != http.MethodGet && !strings.Contains(req.URL.Path, "events.k8s.io")
		if counts {
			writes++
		}
		last, dead := counts && writes == limit, counts && writes > limit
		mu.Unlock()
		switch {
		case last && limit%2 == 0: // done, and not answered
			if response, err := send(); err == nil {
				response.Body.Close()
			}
			return answer(req, http.StatusInternalServerError), nil
		case last, dead:
			return answer(req, http.StatusInternalServerError), nil
		}
		return send()
	})
	check := b.watchEpochs()
	b.stop()
	b.edit(func(w *v1alpha1.World) {
		w.Spec.Assignment.Areas = append(w.Spec.Assignment.Areas, v1alpha1.Area{Ordinal: 1, Column: 2, Width: 2, Height: 4}, v1alpha1.Area{Column: 6, Width: 2, Height: 4})
	})
	for life := 1; life <= 10; life++ {
		mu.Lock()
		writes, limit = 0, life
		mu.Unlock()
		b.startOperator()
		b.await("the operator's end", func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			_, _, moved := b.nodes.leases.counts()
			return writes >= limit || moved == 16, fmt.Sprint(writes)
		})
		b.stop()
	}
	b.wire.set(nil)
	b.startOperator()
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	check()
	if _, most, moved := b.nodes.leases.counts(); most > 4 || moved != 16 {
		t.Errorf("%d moves, up to %d at once; want 16, at most 4 at once", moved, most)
	}
}

// Every third write is spoilt: done and not answered, refused, or not done and not answered.
func TestLostAnswersNeverSendMoreRegionsOnTheirWay(t *testing.T) {
	b := newBench(t)
	world := b.world(16, 16, 4)
	world.Spec.Assignment = quarters()
	world.Spec.Handoff = v1alpha1.HandoffSpec{MaxConcurrentRegions: 3, RegionTimeoutSeconds: 60}
	b.apply(world)
	b.wire.set(spoilEveryThird(5))
	check := b.watchEpochs()
	b.edit(exchange)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	check()
	if _, most, moved := b.nodes.leases.counts(); most > 3 || moved != 64 {
		t.Errorf("%d moves, up to %d at once; want 64, at most 3 at once", moved, most)
	}
}

func TestAnEditInTheMiddleIsPlannedFromWhatIs(t *testing.T) {
	b := newBench(t)
	world := b.world(16, 16, 4)
	world.Spec.Assignment = quarters()
	b.apply(world)
	b.edit(exchange)
	b.await("20 moves", func() (bool, string) {
		_, _, moved := b.nodes.leases.counts()
		return moved >= 20, describe(b.get())
	})
	b.edit(func(w *v1alpha1.World) { w.Spec.Assignment = quarters() })
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	_, most, moved := b.nodes.leases.counts()
	if most > 4 || moved < 40 || moved%2 != 0 || moved >= 128 { // what went came back, and the rest never went
		t.Errorf("%d moves, up to %d at once; want twice the 20 or so that had gone, 4 at once", moved, most)
	}
	if got := b.nodes.leases.holders(); got["genesis-zone-0"] != 64 || len(got) != 4 {
		t.Errorf("regions by holder: %v", got)
	}
}

func TestAnOrderIsTakenBackByAnEdit(t *testing.T) {
	b := newBench(t)
	b.apply(b.gives())
	b.nodes.deafen(true)
	b.edit(give)
	b.awaitTarget(given, "genesis-zone-1")
	b.edit(func(w *v1alpha1.World) { w.Spec.Assignment.Areas = w.Spec.Assignment.Areas[:2] })
	b.awaitTarget(given, "genesis-zone-0")
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	if note, found := b.lease(given).Annotations[v1alpha1.AnnotationMove]; found {
		t.Errorf("a region that stays carries the note %q", note)
	}
	b.awaitEvents("OrdersTakenBack")
}

func TestNothingMovesBeforeTheWindowAndTheStatusSaysWhen(t *testing.T) {
	b := newBench(t)
	world := b.gives()
	world.Spec.Maintenance = closedFor(3 * time.Minute)
	world.Spec.Maintenance.AnnounceSeconds = 60
	b.apply(world)
	b.edit(give)
	world = b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionFalse, v1alpha1.ReasonWaitingForWindow)
	opens := world.Status.NextWindow.StartTime
	message := b.message(v1alpha1.ConditionAssignmentConverged)
	if world.Status.NextWindow.State != v1alpha1.WindowClosed || world.Status.NextWindow.Name != "nightly" ||
		!strings.Contains(message, "it may start at "+opens.UTC().Format(time.RFC3339)+" in window nightly") {
		t.Errorf("next window %+v; message %q", *world.Status.NextWindow, message)
	}
	if !meta.IsStatusConditionTrue(world.Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("waiting for a window lowered Ready")
	}
	b.awaitEvents("WaitingForWindow")
	b.settled()
	b.quiet(7 * time.Second)

	b.ahead.Store(int64(time.Until(opens.Time) - 30*time.Second))
	b.await("the announcement", func() (bool, string) {
		world = b.get()
		return world.Status.NextWindow.State == v1alpha1.WindowAnnounced, fmt.Sprintf("%+v", world.Status.NextWindow)
	})
	if moving, _, moved := b.nodes.leases.counts(); moving+moved != 0 {
		t.Errorf("%d regions moved and %d are moving before the window", moved, moving)
	}
	b.ahead.Store(int64(time.Until(opens.Time)))
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	if state := b.get().Status.NextWindow.State; state != v1alpha1.WindowOpen {
		t.Errorf("the window is %s", state)
	}
	b.awaitEvents("WindowAnnounced", "WindowOpened", "RegionsMoved")
}

func TestWhatStartedFinishesWhenTheWindowClosesAndTheRestWaits(t *testing.T) {
	b := newBench(t)
	world := b.gives()
	world.Spec.Handoff = v1alpha1.HandoffSpec{MaxConcurrentRegions: 1, RegionTimeoutSeconds: 3600}
	end := metav1.NewTime(time.Now().Add(30 * time.Minute))
	world.Spec.Maintenance = closedFor(3 * time.Hour)
	world.Spec.Maintenance.Override = &v1alpha1.MaintenanceOverride{ExecutionTime: v1alpha1.ExecutionImmediate, EndTime: end, Reason: "test"}
	b.apply(world)
	b.nodes.deafen(true)
	b.edit(func(w *v1alpha1.World) {
		w.Spec.Assignment.Areas = []v1alpha1.Area{{Width: 1}, {Ordinal: 1, Column: 1, Width: 3}}
		w.Spec.Assignment.Areas = append(w.Spec.Assignment.Areas, v1alpha1.Area{Column: 2}) // and one the other way
	})
	b.await("one region to be on its way", func() (bool, string) {
		moving, _, _ := b.nodes.leases.counts()
		return moving == 1, describe(b.get())
	})
	b.ahead.Store(int64(31 * time.Minute)) // the override is over
	b.await("the rest to wait for the window", func() (bool, string) {
		m := b.message(v1alpha1.ConditionAssignmentConverged)
		return strings.Contains(m, "1 moving") && strings.Contains(m, "1 waiting: no window is open"), m
	})
	b.nodes.deafen(false)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionFalse, v1alpha1.ReasonWaitingForWindow)
	if _, most, moved := b.nodes.leases.counts(); most != 1 || moved != 1 {
		t.Errorf("%d moves, %d at once; want only the one that had started", moved, most)
	}
	b.awaitEvents("WindowClosed")
}

func TestAnOrderInVainIsTakenBackAndTriedAgainLater(t *testing.T) {
	b := newBench(t)
	world := b.gives()
	world.Spec.Handoff = v1alpha1.HandoffSpec{MaxConcurrentRegions: 4, RegionTimeoutSeconds: 5}
	b.apply(world)
	b.nodes.deafen(true)
	b.edit(give)
	b.awaitTarget(given, "genesis-zone-1")
	world = b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionFalse, v1alpha1.ReasonBackingOff)
	message := b.message(v1alpha1.ConditionAssignmentConverged)
	if !strings.Contains(message, "1,0 to node 1, taken back because it had not gone after 5s; it is tried again at 20") || world.Status.Moves.BackingOff != 1 {
		t.Errorf("message %q; moves %+v", message, *world.Status.Moves)
	}
	if lease := b.lease(given); nodeOf(lease) != "genesis-zone-0" || lease.Annotations[v1alpha1.AnnotationTarget] != "genesis-zone-0" {
		t.Errorf("the region is with %s, ordered to %s", nodeOf(lease), lease.Annotations[v1alpha1.AnnotationTarget])
	}
	b.awaitEvents("OrdersTakenBack")
	b.stop()
	b.startOperator() // it knows of the failure by the note alone
	b.awaitTarget(given, "genesis-zone-1")
	b.awaitTarget(given, "genesis-zone-0")
	if note := b.lease(given).Annotations[v1alpha1.AnnotationMove]; !strings.Contains(note, "failures=2") {
		t.Errorf("note %q", note)
	}
	b.nodes.deafen(false)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}

func TestANodeThatDiesWhileARegionIsOnItsWayToIt(t *testing.T) {
	b := newBench(t)
	world := b.gives()
	world.Spec.Failover.RedistributionDelaySeconds = new(int32(300))
	b.apply(world)
	epoch := b.epochs()[given]
	b.nodes.deafen(true)
	b.edit(give)
	b.awaitTarget(given, "genesis-zone-1")
	b.nodes.freeze("genesis-zone-1")
	b.awaitTarget(given, "genesis-zone-0")
	b.awaitRevoked("genesis-zone-1")
	b.nodes.deafen(false)
	b.await("the region to wait for the node", func() (bool, string) {
		m := b.message(v1alpha1.ConditionAssignmentConverged)
		return strings.Contains(m, "waiting for node genesis-zone-1"), m
	})
	if lease := b.lease(given); nodeOf(lease) != "genesis-zone-0" || *lease.Spec.LeaseTransitions != epoch {
		t.Errorf("the region is with %s at epoch %d, want it to have stayed", nodeOf(lease), *lease.Spec.LeaseTransitions)
	}
	b.nodes.thaw("genesis-zone-1")
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}

func TestANodeThatDiesWhileItGivesARegionAway(t *testing.T) {
	b := newBench(t)
	b.apply(b.gives())
	b.nodes.deafen(true)
	b.edit(give)
	b.awaitTarget(given, "genesis-zone-1")
	check := b.watchEpochs()
	b.nodes.freeze("genesis-zone-0")
	b.awaitRevoked("genesis-zone-0")
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	lease := b.lease(given)
	if note, found := lease.Annotations[v1alpha1.AnnotationMove]; nodeOf(lease) != "genesis-zone-1" || found {
		t.Errorf("the region is with %s and carries the note %q: it was taken over, not moved", nodeOf(lease), note)
	}
	b.nodes.thaw("genesis-zone-0")
	b.nodes.deafen(false)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	check()
}

func TestRegionsGoHomeInTheNextWindow(t *testing.T) {
	b := newBench(t)
	world := b.mortal(4, 4, 4)
	world.Spec.Maintenance = closedFor(time.Hour)
	b.apply(world)
	b.nodes.freeze("genesis-zone-1")
	b.awaitRevoked("genesis-zone-1")
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing) // failover waits for no window
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionFalse, v1alpha1.ReasonHolderAway)
	b.nodes.thaw("genesis-zone-1")
	world = b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionFalse, v1alpha1.ReasonWaitingForWindow)
	if world.Status.Moves.Planned != 4 || world.Status.Regions.Away != 4 {
		t.Errorf("moves %+v, %d away", *world.Status.Moves, world.Status.Regions.Away)
	}
	b.edit(func(w *v1alpha1.World) {
		w.Spec.Maintenance.Override = &v1alpha1.MaintenanceOverride{
			ExecutionTime: v1alpha1.ExecutionImmediate, EndTime: metav1.NewTime(time.Now().Add(time.Hour)), Reason: "no need to wait",
		}
	})
	world = b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	if _, _, moved := b.nodes.leases.counts(); moved != 4 || world.Status.NextWindow.State != v1alpha1.WindowOverridden || world.Status.NextWindow.Reason != "no need to wait" {
		t.Errorf("%d moved, next window %+v", moved, *world.Status.NextWindow)
	}
	b.awaitEvents("WindowOverridden")
}

func TestAPausedWorldMovesNothing(t *testing.T) {
	b := newBench(t)
	b.apply(b.gives())
	b.edit(func(w *v1alpha1.World) { w.Spec.ManagementPolicy = v1alpha1.ManagementPaused })
	b.edit(give)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionFalse, v1alpha1.ReasonPaused)
	b.settled()
	b.quiet(3 * time.Second)
	b.edit(func(w *v1alpha1.World) { w.Spec.ManagementPolicy = v1alpha1.ManagementManaged })
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	if _, _, moved := b.nodes.leases.counts(); moved != 1 {
		t.Errorf("%d regions moved, want 1", moved)
	}
}

func TestAWindowThatCannotBeReadStopsWhatWouldWaitForIt(t *testing.T) {
	b := newBench(t)
	world := b.gives()
	world.Spec.Maintenance = &v1alpha1.MaintenanceSpec{Windows: []v1alpha1.MaintenanceWindow{{Name: "nightly", Cron: "0 25 * * *", DurationSeconds: 900}}}
	b.apply(world)
	b.edit(give)
	b.awaitCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidMaintenance)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionFalse, v1alpha1.ReasonInvalidMaintenance)
	if m := b.message(v1alpha1.ConditionStalled); !strings.Contains(m, `window nightly: cron "0 25 * * *" cannot be read`) {
		t.Errorf("message %q does not say what is wrong", m)
	}
	b.settled()
	b.quiet(3 * time.Second)
	b.edit(func(w *v1alpha1.World) { w.Spec.Maintenance.Windows[0].Cron = "* * * * *" })
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	b.awaitCondition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled)
}
