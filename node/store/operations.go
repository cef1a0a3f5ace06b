package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// loadChunk is how many records of a region are read in one go: a few MiB even of large ones.
const loadChunk = 256

// creationGrace is how long an account's master may be on its way into the store, by the server's clock, before another
// creation takes its place. Only its length depends on that clock, not that there is one master.
const creationGrace = 10 * time.Second

// errUnderWay: another creation for the account is between its steps. Asking again will tell.
var errUnderWay = errors.New("the account's master is being created")

// A request is a chain of steps. Each step is one round trip; its calls are sent together and touch one slot tag each.
// The order of steps is the proof that a crash between them loses nothing.
type step struct {
	calls []call
	// then continues when all calls were replied to without error. It returns the answer as soon as it is known; a step
	// beside it, or after it, only tidies up, and its failure changes nothing.
	then func(replies []any) outcome
}

// outcome is what follows a step.
type outcome struct {
	next   *step
	answer *zone.StoreAnswer
	err    error
	// refused says why a request was refused that its sender took for rightful; empty: it was not.
	refused refusal
}

// call is one script, or, without a script, a command that reads.
type call struct {
	script  *script
	command string
	keys    []string
	args    []any
}

// writes reports whether the call may change the store.
func (c call) writes() bool { return c.script != nil && !c.script.reads }

// readAll reads a whole hash.
func readAll(key string) call { return call{command: "HGETALL", keys: []string{key}} }

// read reads some fields of a record.
func read(id ecs.EntityID, fields []string) call {
	args := make([]any, len(fields))
	for i, f := range fields {
		args[i] = f
	}
	return call{command: "HMGET", keys: []string{entityKey(id)}, args: args}
}

func run(s *script, key string, args ...any) call {
	return call{script: s, keys: []string{key}, args: args}
}

func one(c call, then func(reply any) outcome) *step {
	return &step{calls: []call{c}, then: func(replies []any) outcome { return then(replies[0]) }}
}

func goOn(s *step) outcome { return outcome{next: s} }

func done(a zone.StoreAnswer) outcome { return outcome{answer: &a} }

func (o outcome) refuse(why refusal) outcome {
	o.refused = why
	return o
}

func failed(err error) outcome { return outcome{err: err} }

// first returns the first step of a request that has been checked.
func first(req zone.StoreRequest, stamp stamp) *step {
	switch req.Op {
	case zone.StoreClaimSession:
		return claimSession(req)
	case zone.StoreCreate:
		return create(req)
	case zone.StoreClaim:
		return claim(req)
	case zone.StoreSave:
		return save(req, stamp)
	case zone.StoreLoadRegion:
		return loadRegion(req)
	case zone.StoreWrite:
		return write(req)
	case zone.StorePeek:
		return peek(req)
	default:
		return load(req)
	}
}

// stamp orders the saves of one driver, so that one which lands late is told from the latest.
type stamp struct {
	writer string
	number uint64
}

// claimSession: the account's slot, then a look at the master.
func claimSession(req zone.StoreRequest) *step {
	c := run(sessionScript, accountKey(req.Account), sessionClaimID(req), req.Session, knownResume(req), req.FreshSecret)
	return one(c, func(reply any) outcome {
		s, err := decodeSession(reply)
		if err != nil {
			return failed(err)
		}
		ans := answer(req, zone.StoreOK)
		ans.SessionEpoch, ans.LoginEpoch = s.epoch, s.login
		ans.Resumed, ans.PreviousGateway, ans.ResumeSecret = s.resumed, s.previous, s.secret
		if s.master == 0 {
			return done(ans)
		}
		return goOn(addMaster(s.master, ans))
	})
}

func addMaster(id ecs.EntityID, ans zone.StoreAnswer) *step {
	return one(read(id, recordFields[:len(recordFields)-1]), func(reply any) outcome {
		rec, found, err := decodeRecord(id, reply)
		if err != nil {
			return failed(err)
		}
		if found {
			ans.Record = &rec
		}
		return done(ans)
	})
}

// create: the account names its master first, so that it never has two; the index follows, so that the record is in it
// from its first moment on.
func create(req zone.StoreRequest) *step {
	if req.Record.Account == 0 {
		return enterThenCreate(req)
	}
	return reserve(req, 0, 1)
}

// reserve makes the entity its account's master, in the place of one whose creation was given up (0: of none).
func reserve(req zone.StoreRequest, givenUp ecs.EntityID, tries int) *step {
	rec := req.Record
	old := ""
	if givenUp != 0 {
		old = decimal(uint64(givenUp))
	}
	c := run(reserveScript, accountKey(rec.Account), decimal(uint64(rec.Entity)), old)
	return one(c, func(reply any) outcome {
		r, err := decodeReservation(reply)
		switch {
		case err != nil:
			return failed(err)
		case r.ours:
			return goOn(enterThenCreate(req))
		case r.age < creationGrace || tries == 0:
			return goOn(answerMaster(req, r.master))
		}
		return goOn(giveUp(req, r.master, tries-1))
	})
}

// answerMaster answers with the account's master, which may still be on its way.
func answerMaster(req zone.StoreRequest, master ecs.EntityID) *step {
	return one(readAll(entityKey(master)), func(reply any) outcome {
		rec, found, err := decodeHash(master, reply, true)
		switch {
		case err != nil:
			return failed(err)
		case !found:
			return failed(errUnderWay)
		}
		return done(answerWith(req, zone.StoreConflict, rec))
	})
}

// giveUp answers with the account's master, or, if its creation has not happened for so long (a crash between the
// slots), rules out that it still happens and takes its place.
func giveUp(req zone.StoreRequest, master ecs.EntityID, tries int) *step {
	return one(run(voidScript, entityKey(master)), func(reply any) outcome {
		status, rest, err := statusOf(reply)
		switch {
		case err != nil:
			return failed(err)
		case status == "void":
			return goOn(reserve(req, master, tries))
		}
		rec, err := presentAt(master, rest, 0)
		if err != nil {
			return failed(err)
		}
		return done(answerWith(req, zone.StoreConflict, rec))
	})
}

func enterThenCreate(req zone.StoreRequest) *step {
	return one(enterIndex(req.Record), func(any) outcome { return goOn(createRecord(req)) })
}

func enterIndex(rec zone.Record) call {
	args := append([]any{decimal(uint64(rec.Entity))}, epochArgs(rec.Epoch)...)
	return run(enterScript, indexKey(rec.Home), args...)
}

func createRecord(req zone.StoreRequest) *step {
	rec := req.Record
	args := append(epochArgs(rec.Epoch), regionArgs(rec.Home)...)
	c := rec.Contents
	args = append(args, decimal(rec.Account), flag(rec.Resting), rec.Blob, decimal(c.Moves), decimal(c.Made), decimal(c.Ended))
	args = append(args, encodeContents(c, false)...)
	return one(run(createScript, entityKey(rec.Entity), args...), func(reply any) outcome {
		status, rest, err := statusOf(reply)
		switch {
		case err != nil:
			return failed(err)
		case status == "created":
			return done(answer(req, zone.StoreOK))
		case status == "void":
			return done(answer(req, zone.StoreConflict)) // for good: the account needs an entity of another id
		}
		stored, err := presentAt(rec.Entity, rest, 0)
		switch {
		case err != nil:
			return failed(err)
		case createdBy(stored, rec):
			return done(answer(req, zone.StoreOK))
		}
		return done(answerWith(req, zone.StoreConflict, stored))
	})
}

// claim: into the new region's index first, then the claim itself, then out of the old index. A crash in between leaves an
// entry too many, which the next load of that region drops.
func claim(req zone.StoreRequest) *step {
	if riseOf(req.Expect, req.Record.Epoch) == claimLowers {
		return claimRecord(req)
	}
	return one(enterIndex(req.Record), func(any) outcome { return goOn(claimRecord(req)) })
}

func claimRecord(req zone.StoreRequest) *step {
	id, rise := req.Record.Entity, riseOf(req.Expect, req.Record.Epoch)
	args := append(epochArgs(req.Expect), epochArgs(req.Record.Epoch)...)
	args = append(append(args, regionArgs(req.Record.Home)...), string(rise))
	return one(run(claimScript, entityKey(id), args...), func(reply any) outcome {
		status, rest, err := statusOf(reply)
		if err != nil {
			return failed(err)
		}
		rec, found, err := recordAt(id, rest, 0)
		switch {
		case err != nil:
			return failed(err)
		case !found:
			return done(answer(req, zone.StoreMissing))
		case status != "claimed":
			return done(answerWith(req, zone.StoreConflict, rec)).refuse(refusedByFence)
		}
		out := done(answerWith(req, zone.StoreOK, rec))
		if old, err := oldHome(rest); err == nil && old != rec.Home {
			out.next = leaveIndexes([]leaving{{id, old, rec.Epoch}})
		}
		return out
	})
}

// oldHome reads the region that a claimed record was in before.
func oldHome(values []any) (torus.RegionPos, error) {
	d := fieldReader{values: values}
	r := torus.RegionPos{Column: int32(d.number(1, 31)), Row: int32(d.number(2, 31))}
	return r, d.err
}

// leaving is an entry to drop from the index of a region, because its entity was elsewhere with an epoch.
type leaving struct {
	id     ecs.EntityID
	region torus.RegionPos
	epoch  zone.Epoch
}

func leaveIndexes(entries []leaving) *step {
	s := &step{then: func([]any) outcome { return outcome{} }}
	for _, l := range entries {
		args := append([]any{decimal(uint64(l.id))}, epochArgs(l.epoch)...)
		s.calls = append(s.calls, run(leaveScript, indexKey(l.region), args...))
	}
	return s
}

// save: one slot.
func save(req zone.StoreRequest, st stamp) *step {
	rec := req.Record
	args := append(epochArgs(rec.Epoch), flag(rec.Resting), rec.Blob, st.writer, decimal(st.number))
	return one(run(saveScript, entityKey(rec.Entity), args...), func(reply any) outcome {
		status, _, err := statusOf(reply)
		switch {
		case err != nil:
			return failed(err)
		case status == "saved":
			return done(answer(req, zone.StoreOK))
		case status == "missing":
			return done(answer(req, zone.StoreMissing))
		}
		return done(answer(req, zone.StoreConflict)).refuse(refusedByFence)
	})
}

func load(req zone.StoreRequest) *step {
	return one(readAll(entityKey(req.Entity)), func(reply any) outcome {
		rec, found, err := decodeHash(req.Entity, reply, true)
		switch {
		case err != nil:
			return failed(err)
		case !found:
			return done(answer(req, zone.StoreMissing))
		}
		return done(answerWith(req, zone.StoreOK, rec))
	})
}

// loadRegion: the region's slot, then the records, some at a time. Records decide what is in the region, not the index.
func loadRegion(req zone.StoreRequest) *step {
	c := call{
		script: regionScript,
		keys:   []string{fenceKey(req.Region), indexKey(req.Region)},
		args:   []any{decimal(req.RegionEpoch)},
	}
	return one(c, func(reply any) outcome {
		status, rest, err := statusOf(reply)
		switch {
		case err != nil:
			return failed(err)
		case status == "conflict":
			return fenced(req, rest)
		}
		index, err := decodeIndex(rest, 0)
		if err != nil {
			return failed(err)
		}
		l := &regionLoad{req: req, answer: answer(req, zone.StoreOK), index: index}
		return l.goOn()
	})
}

// fenced is the answer of a region whose fence is above the one that was shown.
func fenced(req zone.StoreRequest, rest []any) outcome {
	epoch, err := fenceAt(rest, 0)
	if err != nil {
		return failed(err)
	}
	ans := answer(req, zone.StoreConflict)
	ans.RegionEpoch = epoch
	return done(ans).refuse(refusedByFence)
}

// fenceAt reads the fence that is value i of a reply.
func fenceAt(values []any, i int) (uint64, error) {
	d := fieldReader{values: values}
	epoch := d.number(i, 64)
	if d.err != nil {
		return 0, malformed("fence: %v", d.err)
	}
	return epoch, nil
}

// regionLoad is the state of a load that has read part of the index's records.
type regionLoad struct {
	req    zone.StoreRequest
	answer zone.StoreAnswer
	index  []ecs.EntityID
	gone   []leaving
	ground bool // has been read
}

// goOn reads the next records, and the ground beside the first ones: under the fence nobody else changes it any more.
func (l *regionLoad) goOn() outcome {
	if len(l.index) == 0 && l.ground {
		sortRecords(l.answer.Records)
		out := done(l.answer)
		if len(l.gone) > 0 {
			out.next = leaveIndexes(l.gone[:min(len(l.gone), loadChunk)])
		}
		return out
	}
	chunk := l.index[:min(len(l.index), loadChunk)]
	l.index = l.index[len(chunk):]
	s := &step{then: func(replies []any) outcome { return l.take(chunk, replies) }}
	for _, id := range chunk {
		s.calls = append(s.calls, readAll(entityKey(id)))
	}
	if !l.ground {
		s.calls = append(s.calls, readAll(groundKey(l.req.Region)))
	}
	return goOn(s)
}

// take keeps what is of the region. An entry whose entity has been elsewhere since it was made can only be a leftover; the
// script that drops it looks at that. Without a record it may be a creation under way, and stays.
func (l *regionLoad) take(chunk []ecs.EntityID, replies []any) outcome {
	for i, id := range chunk {
		rec, found, err := decodeHash(id, replies[i], true)
		switch {
		case err != nil:
			return failed(fmt.Errorf("loading region %s: %w", l.req.Region, err))
		case !found:
		case rec.Home != l.req.Region:
			l.gone = append(l.gone, leaving{id, l.req.Region, rec.Epoch})
		case !rec.Resting:
			l.answer.Records = append(l.answer.Records, rec)
		}
	}
	if !l.ground {
		contents, err := decodeGround(l.req.Region, replies[len(chunk)])
		if err != nil {
			return failed(fmt.Errorf("loading region %s: %w", l.req.Region, err))
		}
		l.answer.Contents, l.ground = &contents, true
	}
	return l.goOn()
}
