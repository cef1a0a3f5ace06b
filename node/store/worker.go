package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/zone"
)

// job is a request on its way.
type job struct {
	req    zone.StoreRequest
	key    string
	stamp  stamp
	queued time.Time
}

// worker carries out the requests of its queue in batches: the calls of all requests of a batch share round trips. A
// batch never holds two requests of one key, because their steps would mix.
type worker struct {
	redis *Redis
	queue chan job
	// next is a request that was taken from the queue and did not fit into the last batch.
	next *job
}

// work ends when the driver is closed, after it has answered all that is left.
func (w *worker) work() {
	for {
		batch := w.collect()
		if len(batch) == 0 {
			return
		}
		w.carryOut(batch)
	}
}

// collect waits for a request and takes what else is there. It returns nothing when the driver is closed and the queue
// is empty.
func (w *worker) collect() []job {
	var batch []job
	limit := w.limit()
	keys := make(map[string]bool)
	add := func(j job) bool {
		if keys[j.key] {
			w.next = &j
			return false
		}
		keys[j.key] = true
		batch = append(batch, j)
		return len(batch) < limit
	}
	if j := w.next; j != nil {
		w.next = nil
		add(*j)
	} else {
		select {
		case j := <-w.queue:
			add(j)
		case <-w.redis.ctx.Done():
		}
	}
	for len(batch) < limit {
		select {
		case j := <-w.queue:
			if !add(j) {
				return batch
			}
		default:
			return batch
		}
	}
	return batch
}

// limit is the size of a batch. If durability is waited for, that takes as long for many requests as for few.
func (w *worker) limit() int {
	if w.redis.waits() {
		return max(w.redis.options.Batch, cap(w.queue))
	}
	return w.redis.options.Batch
}

// task is a request of the batch under way, or its tidying after the answer.
type task struct {
	job
	step     *step
	answered bool
	// wrote: some call of it may have changed the store, or seen what is not durable yet. held is its answer until it is.
	wrote bool
	held  *zone.StoreAnswer
}

func (w *worker) carryOut(batch []job) {
	tasks := make([]*task, len(batch))
	for i, j := range batch {
		tasks[i] = &task{job: j, step: first(j.req, j.stamp)}
	}
	l := w.redis.lane()
	var held []*task
	for open := slices.Clone(tasks); len(open) > 0; {
		w.round(l, open)
		open = unfinished(open)
	}
	for _, t := range tasks {
		if t.held != nil {
			held = append(held, t)
		}
	}
	w.settle(l, held)
	_ = l.close() // it only gives the connection back
}

// unfinished keeps the tasks that have a step to go.
func unfinished(tasks []*task) []*task {
	kept := tasks[:0]
	for _, t := range tasks {
		if t.step != nil {
			kept = append(kept, t)
		}
	}
	return kept
}

// round sends the calls of all tasks and lets each task go on with its replies.
func (w *worker) round(l lane, tasks []*task) {
	err := w.redis.ctx.Err()
	if err == nil && w.writes(tasks) {
		err = w.hold()
	}
	var calls []call
	for _, t := range tasks {
		calls = append(calls, t.step.calls...)
	}
	results := make([]result, len(calls))
	if err == nil {
		l.send(calls, results)
	}
	for _, t := range tasks {
		n := len(t.step.calls)
		w.advance(t, results[:n], err)
		results = results[n:]
	}
}

func (w *worker) writes(tasks []*task) bool {
	for _, t := range tasks {
		for _, c := range t.step.calls {
			if c.writes() {
				return true
			}
		}
	}
	return false
}

// hold waits until the fence allows to write.
func (w *worker) hold() error {
	if w.redis.options.fenced() {
		w.redis.metrics.held.Inc()
	}
	return w.redis.options.awaitFence(w.redis.ctx)
}

// advance takes a task one step further, or ends it.
func (w *worker) advance(t *task, results []result, err error) {
	t.wrote = t.wrote || w.writes([]*task{t})
	replies := make([]any, len(results))
	for i, res := range results {
		replies[i] = res.reply
		err = errors.Join(err, res.err)
	}
	var out outcome
	if err != nil {
		out.err = err
	} else {
		out = t.step.then(replies)
	}
	t.step = out.next
	if errors.Is(out.err, errLate) && !t.answered {
		out.refused = refusedLate
	}
	w.redis.metrics.refuse(out.refused)
	switch {
	case t.answered:
	case out.err != nil:
		t.step = nil
		w.redis.report(t.job, out.err)
		out.answer = new(answer(t.req, zone.StoreUnavailable))
		fallthrough
	case out.answer != nil:
		t.answered = true
		if t.wrote && out.err == nil && w.redis.waits() {
			t.held = out.answer
			return
		}
		w.redis.answer(t.job, *out.answer)
	}
}

// report logs why a request was not carried out.
func (r *Redis) report(j job, err error) {
	if r.ctx.Err() != nil || errors.Is(err, errUnderWay) {
		return
	}
	line, message := &r.failures, "store is not available"
	if errors.Is(err, errReply) {
		line, message = &r.foreign, "store holds something unexpected"
	}
	line.Do(func() {
		r.options.Logger.Error(message, "op", opName(j.req.Op), "key", j.key, "error", err)
	})
}

// result is the reply to a call, or why there is none.
type result struct {
	reply any
	err   error
}

// send makes one round trip with all calls, and a second one with those whose script the server did not know.
func (l lane) send(calls []call, results []result) {
	var all []int
	for i := range calls {
		all = append(all, i)
	}
	l.roundTrip(calls, results, all, false)
	var unknown []int
	for i := range calls {
		if isUnknownScript(results[i].err) {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		l.roundTrip(calls, results, unknown, true)
	}
}

// roundTrip sends some of the calls, with the whole script or its hash.
func (l lane) roundTrip(calls []call, results []result, which []int, whole bool) {
	ctx, cancel := context.WithTimeout(l.redis.ctx, l.redis.options.Timeout)
	defer cancel()
	pipe := l.conn.Pipeline()
	commands := make([]*redis.Cmd, len(which))
	for n, i := range which {
		commands[n] = calls[i].addTo(ctx, pipe, whole)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for n, i := range which {
		reply, err := commands[n].Result()
		results[i] = result{reply, err}
	}
}

func (c call) addTo(ctx context.Context, pipe redis.Pipeliner, whole bool) *redis.Cmd {
	switch {
	case c.script == nil:
		return pipe.Do(ctx, append([]any{c.command, c.keys[0]}, c.args...)...)
	case whole:
		return pipe.Eval(ctx, c.script.source, c.keys, c.args...)
	default:
		return pipe.EvalSha(ctx, c.script.hash, c.keys, c.args...)
	}
}

func isUnknownScript(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrNoScript) || strings.HasPrefix(err.Error(), "NOSCRIPT"))
}
