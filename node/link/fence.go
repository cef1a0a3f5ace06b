package link

import (
	"context"
	"sync"
	"time"
)

// gate holds writers while the fence has passed. Each writer compares the clock with the deadline itself, right before
// its write; the one watching goroutine exists only while somebody is held, and only wakes.
type gate struct {
	now      func() time.Duration
	deadline func() time.Duration
	poll     time.Duration

	mu     sync.Mutex
	held   int
	opened chan struct{} // closed when the held ones should look again; nil: nobody watches
	wg     *sync.WaitGroup
	onHeld func(change int)
}

func (g *gate) open() bool { return g.now() < g.deadline() }

// wait returns nil as soon as the deadline lies ahead, or the error of ctx.
func (g *gate) wait(ctx context.Context) error {
	for !g.open() {
		woken := g.enter()
		select {
		case <-woken:
			g.leave()
		case <-ctx.Done():
			g.leave()
			return ctx.Err()
		}
	}
	return nil
}

func (g *gate) enter() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held++
	g.onHeld(1)
	if g.opened == nil {
		g.opened = make(chan struct{})
		g.wg.Add(1)
		go g.watch()
	}
	return g.opened
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held--
	g.onHeld(-1)
}

// watch ends when the fence opens or nobody is held any more.
func (g *gate) watch() {
	defer g.wg.Done()
	tick := time.NewTicker(g.poll)
	defer tick.Stop()
	for range tick.C {
		if g.release() {
			return
		}
	}
}

func (g *gate) release() bool {
	open := g.open()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !open && g.held > 0 {
		return false
	}
	close(g.opened)
	g.opened = nil
	return true
}
