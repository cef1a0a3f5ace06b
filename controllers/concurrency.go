package controllers

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// writers bounds the writes in flight for one World: enough to create 256 Leases in a blink, few enough for the API
// server's fair queues.
const writers = 32

// each calls do for every item, up to writers at a time, and returns the first error after all that began have ended. Once
// one was not answered no other begins, or an API server that is away would hold the World for a time-out per item.
func each[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	var group errgroup.Group
	var stop atomic.Bool
	group.SetLimit(writers)
	for _, item := range items {
		group.Go(func() error {
			if stop.Load() {
				return nil
			}
			err := do(ctx, item)
			if err != nil && !refused(err) {
				stop.Store(true)
			}
			return err
		})
	}
	return group.Wait()
}
