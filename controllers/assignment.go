package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/placement"
)

// assignment is which node should own which region, before failover has its say.
type assignment struct {
	// table is the declared one, or the orders in force if the declaration is refused, paused or hibernating.
	table placement.Table
	// declared is what the spec says, nil if it says nothing that can be carried out.
	declared placement.Table
	refusal  *placement.Refusal
}

// plannedTable remembers the last plan: planning a large World takes longer than everything else in a reconcile.
type plannedTable struct {
	generation int64
	table      placement.Table
	refusal    *placement.Refusal
}

// decideAssignment computes the declared table, or falls back to the orders in force: a declaration that cannot be carried
// out leaves the running World as it was.
func (s *scene) decideAssignment() assignment {
	a := assignment{}
	if s.replicas() > 0 {
		if s.memory.plan.generation != s.world.Generation {
			table, refusal := placement.Plan(s.declaration())
			s.memory.plan = plannedTable{s.world.Generation, table, refusal}
		}
		a.declared, a.refusal = s.memory.plan.table, s.memory.plan.refusal
	}
	a.table = a.declared
	if a.declared == nil || s.paused() {
		a.table = s.orders()
	}
	return a
}

func (s *scene) declaration() placement.Declaration {
	d := placement.Declaration{
		Grid:   s.grid,
		Nodes:  s.replicas(),
		Policy: placement.Policy(s.world.Spec.Assignment.Policy),
	}
	for _, a := range s.world.Spec.Assignment.Areas {
		d.Areas = append(d.Areas, placement.Area{Ordinal: a.Ordinal, Column: a.Column, Row: a.Row, Width: a.Width, Height: a.Height, Reason: a.Reason})
	}
	return d
}

// orders is the table that the region Leases carry now.
func (s *scene) orders() placement.Table {
	t := make(placement.Table, len(s.regions))
	for i, lease := range s.regions {
		t[i] = placement.Nobody
		if lease != nil {
			t[i] = s.targetNode(lease)
		}
	}
	return t
}

// mayBegin tells whether there is anything to carry out: a World whose first declaration is refused, or that was born
// hibernating, starts nothing.
func (s *scene) mayBegin() bool {
	return s.assignment.declared != nil && !s.paused() || s.begun()
}

// begun tells whether the World has had region Leases.
func (s *scene) begun() bool { return s.world.Status.HighestEpoch > 0 }

// targets is where each region should be, now, but for moves. Pure.
//
// A held region stays with its holder: to move it is decided by movePlan. A free one waits for the node that the table names as
// long as that may come back, then goes to the heir it was promised, or to a new one. A node that drains gets none while there
// is an heir. One in doubt goes to nobody.
func (s *scene) targets() placement.Table {
	want := make(placement.Table, len(s.regions))
	heirs := s.heirs()
	var orphans []int
	for i, lease := range s.regions {
		want[i] = s.assignment.table[i]
		if lease == nil {
			continue
		}
		promised := s.targetNode(lease)
		switch t, holder := s.tenureOf(i); {
		case t == held:
			want[i] = holder
		case s.doubtful(i):
			want[i] = placement.Nobody
		case s.replicas() == 0: // hibernating: everything comes back where it was
			want[i] = promised
		case s.expected(want[i]) && s.mayTake(want[i], heirs):
		case promised >= 0 && promised < s.replicas() && s.sessionHeld(promised) && s.mayTake(promised, heirs):
			want[i] = promised
		default:
			want[i] = placement.Nobody
			orphans = append(orphans, i)
		}
	}
	found := placement.Heirs(s.grid, want, orphans, heirs)
	for _, i := range orphans {
		if heir, ok := found[i]; ok {
			want[i] = heir
		} else {
			want[i] = s.targetNode(s.regions[i])
		}
	}
	return want
}

// mayTake tells whether a free region may go to a node: one that drains is to have none, unless nobody else can have it.
func (s *scene) mayTake(ordinal int32, heirs []int32) bool {
	return !s.draining(ordinal) || len(heirs) == 0
}

// settleRegions frees every region whose holder is not a live session, and writes the orders that differ, one Lease at a
// time, each by a PUT with the resourceVersion it was read at.
func (r *WorldReconciler) settleRegions(ctx context.Context, s *scene) error {
	want := s.targets()
	var changed []int
	updates := map[int]*coordinationv1.Lease{}
	for i, lease := range s.regions {
		if lease == nil {
			continue
		}
		if update := s.decided(i, want[i]); update != nil {
			changed = append(changed, i)
			updates[i] = update
		}
	}
	freed, err := r.writeRegions(ctx, s, changed, updates)
	s.tellSteps(updates)
	if n, to := s.redistributed(changed, want); n > 0 {
		s.notify(noticeRedistributed(n, to))
	}
	for _, ordinal := range slices.Sorted(maps.Keys(freed)) {
		s.notify(noticeFreed(s.world.Name, ordinal, freed[ordinal]))
	}
	return err
}

// writeRegions writes region Leases, puts those that were written into the scene, and counts what it freed by former node.
func (r *WorldReconciler) writeRegions(ctx context.Context, s *scene, changed []int, updates map[int]*coordinationv1.Lease) (map[int32]int, error) {
	freed, mu := map[int32]int{}, sync.Mutex{}
	err := each(ctx, changed, func(ctx context.Context, i int) error {
		if err := r.Update(ctx, updates[i]); err != nil {
			s.memory.custody.unsettled(i, s.regions[i], err)
			return fmt.Errorf("writing region lease %s: %w", updates[i].Name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if t, holder := s.tenureOf(i); t == orphaned {
			freed[holder]++
		}
		s.putRegion(i, updates[i])
		return nil
	})
	return freed, err
}

// redistributed counts the free regions that were just promised to others than the assignment names, and says to whom.
func (s *scene) redistributed(changed []int, want placement.Table) (int, string) {
	counts, total := map[int32]int{}, 0
	for _, i := range changed {
		if t, _ := s.tenureOf(i); t == free && want[i] >= 0 && want[i] != s.assignment.table[i] {
			counts[want[i]]++
			total++
		}
	}
	var parts []string
	for _, ordinal := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", v1alpha1.NodeName(s.world.Name, int(ordinal)), counts[ordinal]))
	}
	return total, strings.Join(parts, ", ")
}

// settle is the Lease as it should be, nil if it is so already.
func (s *scene) settle(lease *coordinationv1.Lease, t tenure, want int32) *coordinationv1.Lease {
	target := targetOf(lease)
	if want >= 0 {
		target = v1alpha1.NodeName(s.world.Name, int(want))
	}
	if t != orphaned && target == targetOf(lease) {
		return nil
	}
	update := lease.DeepCopy()
	metav1.SetMetaDataAnnotation(&update.ObjectMeta, v1alpha1.AnnotationTarget, target)
	delete(update.Annotations, v1alpha1.AnnotationMove) // whoever takes it now does so by failover
	if t == orphaned {
		update.Spec.HolderIdentity = new("")
		update.Spec.RenewTime = new(v1alpha1.LeaseTime(lease.Spec.RenewTime, s.now))
	}
	return update
}
