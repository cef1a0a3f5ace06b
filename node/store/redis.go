package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/spatialcells/spatialcells/node/zone"
)

// Redis is the driver for Valkey, Redis and what speaks like them.
type Redis struct {
	options Options
	client  redis.UniversalClient
	deliver func(zone.StoreAnswer)
	metrics *metrics

	ctx     context.Context
	cancel  context.CancelFunc
	detach  func() bool
	workers []*worker
	running sync.WaitGroup
	seed    maphash.Seed

	// writer and saves stamp the saves of this driver.
	writer string
	saves  atomic.Uint64

	// durability is what the server of the latest connection gives.
	durability atomic.Pointer[durability]

	// tokens has an element for each UseToken under way.
	tokens chan struct{}

	// closing is held by Submit to read, so that no request enters a queue that nobody will empty.
	closing sync.RWMutex
	closed  bool

	// failures and foreign let one line of a kind through per interval, however long the store is away.
	failures, foreign rate.Sometimes
}

// logInterval is the least time between two log lines of a kind.
const logInterval = 10 * time.Second

// New makes a driver and starts its workers. It does not connect: a store that is away makes requests Unavailable, not
// the process. The password is read from passwordFile for each connection; an empty name means none. deliver is called
// from several goroutines, sometimes from within Submit, and must not block. The driver ends with ctx or Close.
func New(
	ctx context.Context, url, passwordFile string, deliver func(zone.StoreAnswer), opts Options,
) (*Redis, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	clientOpts, err := clientOptions(url, passwordFile, opts)
	if err != nil {
		return nil, err
	}
	r := &Redis{
		options: opts, deliver: deliver, writer: rand.Text(), seed: maphash.MakeSeed(), tokens: make(chan struct{}, tokenUses),
		failures: rate.Sometimes{Interval: logInterval}, foreign: rate.Sometimes{Interval: logInterval},
	}
	if r.metrics, err = newMetrics(opts.Registerer, r.queued); err != nil {
		return nil, err
	}
	r.durability.Store(&durabilityUnknown)
	r.metrics.durable(durabilityUnknown)
	clientOpts.OnConnect = r.greet
	r.client = redis.NewUniversalClient(clientOpts)
	// Only shut ends the workers, after it has ended the intake: what is queued has to be answered.
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for range opts.Workers + 1 {
		w := &worker{redis: r, queue: make(chan job, max(1, opts.Queue/(opts.Workers+1)))}
		r.workers = append(r.workers, w)
		r.running.Go(w.work)
	}
	r.detach = context.AfterFunc(ctx, r.shut)
	return r, nil
}

// Submit hands a request to a worker. It never blocks: if the worker's queue is full, or the driver is closed, the
// request is answered StoreUnavailable before it returns.
func (r *Redis) Submit(req zone.StoreRequest) {
	j := job{req: req, queued: time.Now()}
	if err := checkRequest(req); err != nil {
		r.report(j, fmt.Errorf("impossible request: %w", err))
		r.answer(j, answer(req, zone.StoreUnavailable))
		return
	}
	j.key = keyOf(req)
	if !r.enqueue(j) {
		r.metrics.refuse(refusedQueue)
		r.answer(j, answer(req, zone.StoreUnavailable))
	}
}

// enqueue reports whether a worker will answer the request.
func (r *Redis) enqueue(j job) bool {
	r.closing.RLock()
	defer r.closing.RUnlock()
	if r.closed {
		return false
	}
	if j.req.Op == zone.StoreSave {
		j.stamp = stamp{r.writer, r.saves.Add(1)}
	}
	select {
	case r.workerOf(j).queue <- j:
		return true
	default:
		return false
	}
}

// keyOf is what orders requests: those of one key are carried out one after the other. A creation goes by its entity, so
// that the saves which follow it find it; that an account gets one master only is the scripts' affair.
func keyOf(req zone.StoreRequest) string {
	switch req.Op {
	case zone.StoreClaimSession:
		return accountKey(req.Account)
	case zone.StoreLoadRegion:
		return indexKey(req.Region)
	case zone.StoreLoad:
		return entityKey(req.Entity)
	case zone.StoreWrite, zone.StorePeek:
		return holderKeys(req.Holder)[0]
	default:
		return entityKey(req.Record.Entity)
	}
}

// workerOf spreads keys over the workers. Loads of regions, which are long, have the last one for themselves.
func (r *Redis) workerOf(j job) *worker {
	last := len(r.workers) - 1
	if j.req.Op == zone.StoreLoadRegion {
		return r.workers[last]
	}
	return r.workers[maphash.String(r.seed, j.key)%uint64(last)]
}

// queued is the number of requests that wait.
func (r *Redis) queued() float64 {
	n := 0
	for _, w := range r.workers {
		n += len(w.queue)
	}
	return float64(n)
}

// answer delivers the one answer of a request.
func (r *Redis) answer(j job, a zone.StoreAnswer) {
	r.metrics.answered(a, time.Since(j.queued))
	r.deliver(a)
}

// Close answers everything that is open, as it may, and returns when no goroutine of the driver is left.
func (r *Redis) Close() error {
	r.detach()
	r.shut()
	r.running.Wait()
	r.metrics.unregister(r.options.Registerer)
	if err := r.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("closing the store's connections: %w", err)
	}
	return nil
}

// shut ends the intake, then the workers.
func (r *Redis) shut() {
	r.closing.Lock()
	r.closed = true
	r.closing.Unlock()
	r.cancel()
}
