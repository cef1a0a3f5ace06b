package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// tokenUses bounds the tokens that are recorded at once; each has a connection. More wait for their turn.
const tokenUses = 4

// tokenKey depends on the whole name, whatever its length.
func tokenKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "{t:" + hex.EncodeToString(sum[:]) + "}"
}

// UseToken implements Driver. The record expires by the server's clock. A try whose outcome is unknown may have been
// recorded: the token is then refused when it is shown again, never taken twice.
func (r *Redis) UseToken(ctx context.Context, name string, keep time.Duration) (bool, error) {
	select {
	case r.tokens <- struct{}{}:
		defer func() { <-r.tokens }()
	case <-ctx.Done():
		return false, fmt.Errorf("waiting to record a used token: %w", context.Cause(ctx))
	}
	if r.options.fenced() {
		return false, fmt.Errorf("recording a used token: %w", errLate)
	}
	l := r.lane()
	pipe := l.conn.Pipeline()
	fresh := pipe.SetNX(ctx, tokenKey(name), "1", max(keep, time.Second))
	_, err := pipe.Exec(ctx)
	if err == nil && r.waits() {
		err = l.settle(ctx)
	}
	_ = l.close() // it only gives the connection back
	if err != nil {
		return false, fmt.Errorf("recording a used token: %w", err)
	}
	return !fresh.Val(), nil
}
