package fence

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// watchInterval is how often the watchdog looks at the clock.
const watchInterval = 200 * time.Millisecond

// exitNotStopped is the exit code of a process that was told to stop and did not.
const exitNotStopped = 70

// watchdog ends a process that does not end itself. It only looks at the clock and shares nothing with the work but one
// number and one channel, so it runs however stuck the work is. A passed deadline is no reason to exit, it freezes the
// node; a lost session is.
type watchdog struct {
	clock Clock
	grace time.Duration
	exit  func(code int)
	// told is the boot-time instant by which the work must have stopped, 0 while it may run.
	told atomic.Int64
	// stopped is closed when the work has stopped.
	stopped chan struct{}
	once    sync.Once
}

func newWatchdog(clock Clock, grace time.Duration, exit func(int)) *watchdog {
	return &watchdog{clock: clock, grace: grace, exit: exit, stopped: make(chan struct{})}
}

// tell starts the grace, once.
func (w *watchdog) tell() { w.told.CompareAndSwap(0, int64(w.clock.Boottime()+w.grace)) }

// rest ends the watch: the work has stopped.
func (w *watchdog) rest() { w.once.Do(func() { close(w.stopped) }) }

// run watches until the work has stopped, or until ctx ends if the work was never told to stop. look is called with each
// reading of the clock.
func (w *watchdog) run(ctx context.Context, look func(now time.Duration)) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	ended := ctx.Done()
	for ctx.Err() == nil || w.told.Load() != 0 {
		select {
		case <-w.stopped:
			return
		case <-ended:
			ended = nil
			continue
		case <-ticker.C:
		}
		now := w.clock.Boottime()
		look(now)
		if told := w.told.Load(); told != 0 && int64(now) >= told {
			w.exit(exitNotStopped)
			return
		}
	}
}
