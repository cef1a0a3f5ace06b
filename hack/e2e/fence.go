package main

import (
	"context"
	"time"
)

// fence makes the deadlines of nodes pass in every way, while an external checker looks at the store's log, the network and the
// API server's log.
func fence(ctx context.Context, b *bench) error {
	return b.drill(ctx, "fence", 16*time.Minute)
}
