package controllers

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// writers bounds the writes in flight for one World: enough to create 256 Leases in a blink, few enough for the API
// server's fair queues.
const writers = 32

// each calls do for every item, up to writers at a time, and returns the first error after all have ended.
func each[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	var group errgroup.Group
	group.SetLimit(writers)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	return group.Wait()
}
