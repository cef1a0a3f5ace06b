package fence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RaiseEpoch raises the epoch of a region that this session holds to atLeast, because the store knows a fence as high, and
// returns the epoch that the API server confirmed. An unknown outcome is settled by another write. Errors: ErrNotHeld,
// ErrFenced, ErrEpochExhausted, or the last error when ctx ends. The new epoch is in the next table, too.
func (g *Regions) RaiseEpoch(ctx context.Context, index int, atLeast uint64) (uint64, error) {
	if index < 0 || index >= len(g.busy) {
		return 0, fmt.Errorf("raising the epoch of region %d: there are %d", index, len(g.busy))
	}
	if atLeast >= math.MaxInt32 {
		return 0, fmt.Errorf("raising the epoch of region %d to %d: %w", index, atLeast, ErrEpochExhausted)
	}
	select {
	case g.writes <- struct{}{}:
		defer func() { <-g.writes }()
	case <-ctx.Done():
		return 0, fmt.Errorf("raising the epoch of region %d to %d: %w", index, atLeast, ctx.Err())
	}
	var epoch uint64
	err := g.until(ctx, index, func() (bool, error) {
		r := g.ledger.region(index)
		switch {
		case r.lease == nil || r.holder != g.session.Session():
			return true, ErrNotHeld
		case uint64(r.epoch) >= atLeast:
			epoch = uint64(r.epoch)
			return true, nil
		}
		err := g.write(ctx, rewritten(r.lease, r.holder, int32(atLeast)))
		return errors.Is(err, ErrFenced), err
	})
	if err != nil {
		return 0, fmt.Errorf("raising the epoch of region %d to %d: %w", index, atLeast, err)
	}
	return epoch, nil
}

// Release gives regions up on a graceful stop, after the simulation of them stopped for good; nil means all. The regions are
// not taken again in this life. It returns nil once the API server shows that this session holds none of them, or what
// failed when ctx ends.
func (g *Regions) Release(ctx context.Context, indices []int) error {
	if indices == nil {
		for i := range g.busy {
			indices = append(indices, i)
		}
	}
	g.mu.Lock()
	for _, index := range indices {
		g.barred[index] = true
	}
	g.mu.Unlock()
	return g.releaseEach(ctx, indices)
}

// releaseEach releases regions, as many at once as writes are allowed.
func (g *Regions) releaseEach(ctx context.Context, indices []int) error {
	var mu sync.Mutex
	var errs []error
	note := func(index int, err error) {
		if err == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, fmt.Errorf("releasing region %d: %w", index, err))
	}
	var running sync.WaitGroup
	for _, index := range indices {
		select {
		case g.writes <- struct{}{}:
		case <-ctx.Done():
			note(index, ctx.Err())
			continue
		}
		running.Go(func() {
			defer func() { <-g.writes }()
			note(index, g.until(ctx, index, func() (bool, error) { return g.tryRelease(ctx, index) }))
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// tryRelease empties the Lease of a region once, if this session holds it. It needs no deadline: giving up is always safe
// once the simulation stopped, and the write only counts if the session still holds the region.
func (g *Regions) tryRelease(ctx context.Context, index int) (released bool, err error) {
	r := g.ledger.region(index)
	if r.lease == nil || r.holder != g.session.Session() {
		return true, nil
	}
	return false, g.put(ctx, rewritten(r.lease, "", r.epoch))
}

// until repeats do, as the only one to write this region, until it is finished or ctx ends.
func (g *Regions) until(ctx context.Context, index int, do func() (finished bool, err error)) error {
	select {
	case g.busy[index] <- struct{}{}:
		defer func() { <-g.busy[index] }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for n := 1; ; n++ {
		finished, err := do()
		switch {
		case finished:
			return err
		case err == nil:
			continue // the ledger has the answer
		}
		if pause(ctx, backoff(n)) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// write is put, unless the deadline has passed at the last moment before.
func (g *Regions) write(ctx context.Context, lease *coordinationv1.Lease) error {
	if g.session.deadline.Passed(g.clock.Boottime()) {
		return ErrFenced
	}
	return g.put(ctx, lease)
}

// put writes the Lease of a region and enters the answer. Whatever else happened, it reads what became of it, so that the
// next decision is about the present; the read may fail, the watch shows it later.
func (g *Regions) put(ctx context.Context, lease *coordinationv1.Lease) error {
	writing, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	got, err := update(writing, g.leases, lease)
	if err == nil {
		g.ledger.observe(got)
		return nil
	}
	reading, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if got, getErr := g.leases.Get(reading, lease.Name, metav1.GetOptions{}); getErr == nil {
		g.ledger.observe(got)
	}
	return err
}
