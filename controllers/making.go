package controllers

import (
	"context"
	"errors"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const (
	// refusedPause is the time between two tries to make Leases that the API server refuses: it may be for want of quota, and
	// somebody may be about to cure that.
	refusedPause = 30 * time.Second
	// firstPause is the time after any other failure, longestPause after many: each try that nobody answers costs epochs, for
	// what it may have made.
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	// namedFailures is after how many tries in vain the status says so, whatever the cause.
	namedFailures = 3
)

// making is what came of the last try to make the missing Leases of one kind.
type making struct {
	// of names the Leases that were missing, err is why they still are. It is not tried again before until.
	of       string
	err      error
	until    time.Time
	failures int
	// spare is an epoch under which the API server made nothing of all that was missing, 0 if there is none; bound was the
	// highestEpoch then. While nothing else is missing and nobody raised that, the next try can do with it.
	spare, bound int32
}

// making returns what came of the last try for a kind of Lease.
func (m *memory) making(kind string) *making {
	if m.makings == nil {
		m.makings = map[string]*making{}
	}
	if m.makings[kind] == nil {
		m.makings[kind] = &making{}
	}
	return m.makings[kind]
}

// standing is why it is too early to try again, nil if it is not.
func (m *making) standing(now time.Time, of string) error {
	if left := m.until.Sub(now); m.of == of && left > 0 && left <= longestPause {
		return m.err
	}
	return nil
}

// note takes in what came of a try under an epoch.
func (m *making) note(s *scene, of string, epoch int32, t *try) error {
	if t.err == nil {
		*m = making{}
		return nil
	}
	pause := min(firstPause<<min(m.failures, 16), longestPause)
	if edit := (*blocked)(nil); errors.As(t.err, &edit) {
		pause = refusedPause
	}
	*m = making{of: of, err: t.err, until: s.now.Add(pause), failures: m.failures + 1}
	if t.made == 0 && !t.unsure {
		m.spare, m.bound = epoch, s.highestEpoch
	}
	return t.err
}

// epochFor is an epoch above all that Leases which are missing may have had.
func (r *WorldReconciler) epochFor(ctx context.Context, s *scene, m *making, of string) (int32, error) {
	if m.spare > 0 && m.of == of && m.bound == s.highestEpoch {
		return m.spare, nil
	}
	return r.raiseHighestEpoch(ctx, s)
}

// try counts what becomes of Leases that are sent to be made.
type try struct {
	made int
	// err is the first failure; foreign tells that all of them are Leases of somebody else, which are in nobody else's way.
	err     error
	foreign bool
	// unsure: one that failed may have been made all the same.
	unsure bool
}

func (t *try) note(err error) {
	if err == nil {
		t.made++
		return
	}
	var edit *blocked
	foreign := errors.As(err, &edit) && edit.reason == v1alpha1.ReasonNameConflict
	if t.err == nil || t.foreign && !foreign {
		t.err, t.foreign = err, foreign
	}
	t.unsure = t.unsure || !refused(err)
}

// over tells whether more would fail as well.
func (t *try) over() bool { return t.err != nil && !t.foreign }

// obstruct notes why Leases are missing: what only an edit cures, and what lasts.
func (s *scene) obstruct(kind string, err error) {
	var edit *blocked
	switch {
	case err == nil:
		return
	case !errors.As(err, &edit):
		s.fail(err)
		if s.memory.making(kind).failures >= namedFailures {
			s.verdicts[v1alpha1.ConditionNodesUpToDate] = verdict{false, v1alpha1.ReasonProgressing, "Leases cannot be made: " + calmWords(err) + "."}
		}
	case s.verdicts[v1alpha1.ConditionStalled].reason == "":
		s.block(edit)
	}
}
