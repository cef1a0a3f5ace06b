package gateway

import (
	"container/heap"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// usedTokens remembers each jti until its token has expired. It never forgets one earlier: when it is full, it refuses.
type usedTokens struct {
	mu    sync.Mutex
	limit int
	known map[tokenDigest]struct{}
	order expiryHeap
}

// tokenDigest stands for a jti, so that memory does not depend on its length.
type tokenDigest [sha256.Size]byte

// newUsedTokens returns a memory for limit tokens.
func newUsedTokens(limit int) *usedTokens {
	return &usedTokens{limit: limit, known: map[tokenDigest]struct{}{}}
}

// add records a jti that is to be remembered until forget.
func (u *usedTokens) add(jti string, forget, wall time.Time) error {
	digest := sha256.Sum256([]byte(jti))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.expire(wall)
	if _, ok := u.known[digest]; ok {
		return refusedToken(CauseReplayed, "jti was used before")
	}
	if len(u.order) >= u.limit {
		return refusedToken(CauseUnavailable, "%d unexpired tokens are remembered as used; issue shorter-lived ones", u.limit)
	}
	u.known[digest] = struct{}{}
	heap.Push(&u.order, usedToken{digest, forget})
	return nil
}

// remove forgets a jti that was not used after all. Its place in the order stays taken until it expires.
func (u *usedTokens) remove(jti string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, sha256.Sum256([]byte(jti)))
}

// expire forgets what has expired.
func (u *usedTokens) expire(wall time.Time) {
	for len(u.order) > 0 && u.order[0].forget.Before(wall) {
		delete(u.known, heap.Pop(&u.order).(usedToken).digest)
	}
}

// usedToken is one entry of the order.
type usedToken struct {
	digest tokenDigest
	forget time.Time
}

// expiryHeap has the token that expires first on top.
type expiryHeap []usedToken

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].forget.Before(h[j].forget) }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)        { *h = append(*h, x.(usedToken)) }

func (h *expiryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// newTokenID returns a random jti.
func newTokenID() string { return rand.Text() }
