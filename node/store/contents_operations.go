package store

import (
	"fmt"

	"github.com/spatialcells/spatialcells/node/zone"
)

// refusal is why a store refused something: a label of a metric.
type refusal string

const (
	// refusedByFence: the epoch of the record, or the fence of the region, is another than the sender's.
	refusedByFence refusal = "fence"
	// refusedByMoves: the contents were written since.
	refusedByMoves refusal = "moves"
	// refusedUnfitting: what was to be added was there, or what was to be removed was not, or it would be too much.
	refusedUnfitting refusal = "unfitting"
	// refusedLate: the driver's own deadline had passed, nothing was sent.
	refusedLate refusal = "late"
	// refusedQueue: too many requests wait already.
	refusedQueue refusal = "queue"
)

var refusals = []refusal{refusedByFence, refusedByMoves, refusedUnfitting, refusedLate, refusedQueue}

// write: one slot, one script that compares and sets.
func write(req zone.StoreRequest) *step {
	c := call{script: writeScript, keys: holderKeys(req.Holder), args: writeArgs(req)}
	return one(c, func(reply any) outcome {
		status, rest, err := statusOf(reply)
		switch {
		case err != nil:
			return failed(err)
		case status == "written":
			return done(answer(req, zone.StoreOK))
		case status == "missing":
			return done(answer(req, zone.StoreMissing))
		}
		d := fieldReader{values: rest}
		why := refusal(d.text(0))
		if d.err != nil || why != refusedByFence && why != refusedByMoves && why != refusedUnfitting {
			return failed(malformed("a write is refused by %.32q", why))
		}
		ans, err := holderAnswer(req, zone.StoreConflict, rest[1:])
		if err != nil {
			return failed(err)
		}
		return done(ans).refuse(why)
	})
}

// writeArgs are the arguments of the script, in its order.
func writeArgs(req zone.StoreRequest) []any {
	ch, ground := req.Change, req.Holder.OnGround()
	args := []any{decimal(req.Write), decimal(req.Moves), decimal(req.Moves + 1)}
	if ground {
		args = append(args, decimal(req.RegionEpoch), "")
	} else {
		args = append(args, epochArgs(req.Expect)...)
	}
	args = append(args, decimal(ch.Made), decimal(ch.Ended))
	args = append(args, maxItems(ground), zone.MaxOpen, zone.MaxRemembered, zone.MaxEdits)
	args = append(args, len(ch.AddItems)-len(ch.RemoveItems), len(ch.AddOut)-len(ch.RemoveOut), len(ch.AddIn)-len(ch.RemoveIn))
	removed := removedFields(ch)
	added := encodeContents(zone.Contents{Items: ch.AddItems, Out: ch.AddOut, In: ch.AddIn}, ground)
	deepened := encodeEdits(ch.Edits)
	args = append(args, len(removed), len(added)/2, len(deepened)/2)
	return append(append(append(args, removed...), added...), deepened...)
}

// holderAnswer answers with a holder as it is: its fields, and the fence of a ground.
func holderAnswer(req zone.StoreRequest, code zone.StoreCode, values []any) (zone.StoreAnswer, error) {
	if len(values) < 2 {
		return zone.StoreAnswer{}, malformed("a holder of %d values", len(values))
	}
	if !req.Holder.OnGround() {
		rec, found, err := decodeHash(req.Holder.Entity, values[0], false)
		if err == nil && !found {
			err = malformed("record %d without fields", req.Holder.Entity)
		}
		return answerWith(req, code, rec), err
	}
	contents, err := decodeGround(req.Holder.Region, values[0])
	if err != nil {
		return zone.StoreAnswer{}, err
	}
	ans := answer(req, code)
	ans.Contents = &contents
	ans.RegionEpoch, err = fenceAt(values, 1)
	return ans, err
}

// peek reads a holder in one go, a ground together with its fence.
func peek(req zone.StoreRequest) *step {
	return one(call{script: lookScript, keys: holderKeys(req.Holder)}, func(reply any) outcome {
		status, rest, err := statusOf(reply)
		if err != nil || status != "found" {
			return failed(fmt.Errorf("looking at a holder: %w", malformed("status %.32q, %v", status, err)))
		}
		if !req.Holder.OnGround() {
			return peekEntity(req, rest)
		}
		ans, err := holderAnswer(req, zone.StoreOK, rest)
		if err != nil {
			return failed(err)
		}
		return done(ans)
	})
}

func peekEntity(req zone.StoreRequest, values []any) outcome {
	if len(values) == 0 {
		return failed(malformed("a holder of no values"))
	}
	rec, found, err := decodeHash(req.Holder.Entity, values[0], false)
	switch {
	case err != nil:
		return failed(err)
	case !found:
		return done(answer(req, zone.StoreMissing))
	}
	ans := answer(req, zone.StoreOK)
	ans.Contents = &rec.Contents
	return done(ans)
}
