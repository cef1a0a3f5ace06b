package fence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// outcome is what an answer of the API server says about the request.
type outcome uint8

const (
	// done: the request took effect.
	done outcome = iota + 1
	// conflict: it did not, the object is another version by now.
	conflict
	// refused: the server answered and did nothing (401, 403, 404, 422, 429). It says nothing about who holds the Lease.
	refused
	// unknown: it took effect, or will, or will not (time-out, broken connection, 5xx).
	unknown
)

func (o outcome) String() string {
	return [...]string{"", "done", "conflict", "refused", "unknown"}[o]
}

// classify sorts the errors of client-go.
func classify(err error) outcome {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return done
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return unknown
	case !errors.As(err, &status):
		return unknown
	case apierrors.IsConflict(err):
		return conflict
	case status.Status().Code >= 400 && status.Status().Code < 500:
		return refused
	}
	return unknown
}

// tenure is what this process holds: one incarnation of one Lease object.
type tenure struct {
	uid         types.UID
	holder      string
	incarnation int32
}

// of reports whether the Lease still shows this tenure.
func (t tenure) of(lease *coordinationv1.Lease) bool {
	return lease.UID == t.uid && holderOf(lease) == t.holder && transitionsOf(lease) == t.incarnation
}

// request is what a renewal asks of the API server next.
type request uint8

const (
	// write: PUT the version known last.
	write request = iota + 1
	// read: GET, to see what became of it.
	read
)

// verdict is what an answer means for the session.
type verdict uint8

const (
	// renewed: the deadline may be counted from the start of this request.
	renewed verdict = iota + 1
	// again: nothing is extended, ask again at once.
	again
	// later: nothing is known, nothing is extended or shortened, ask again soon.
	later
	// lost: another holder, another incarnation or another object. For good.
	lost
)

// renewal is the state machine of renewing: it says what to ask, and takes in what was answered.
type renewal struct {
	tenure
	// lease is the version to write next; nobody changes it.
	lease *coordinationv1.Lease
	// verify: the last write was answered without taking effect, so read before writing again.
	verify bool
}

// next says what to ask.
func (r *renewal) next() request {
	if r.verify {
		return read
	}
	return write
}

// answered takes in the answer to what next said, and gives the reason of its verdict.
func (r *renewal) answered(asked request, got *coordinationv1.Lease, err error) (verdict, string) {
	result := classify(err)
	r.verify = asked == write && (result == conflict || result == refused)
	switch {
	case result == conflict:
		return again, "the lease is another version by now"
	case result != done:
		return later, fmt.Sprintf("outcome %s: %v", result, err)
	case !r.of(got):
		return lost, fmt.Sprintf("now held by %q as incarnation %d, object %s; this was %q, %d, object %s",
			holderOf(got), transitionsOf(got), got.UID, r.holder, r.incarnation, r.uid)
	}
	r.lease = got
	if asked == read {
		return again, "same incarnation and holder: an answer was lost"
	}
	return renewed, ""
}

// action is what a node does with a region Lease by itself.
type action uint8

const (
	// leave it alone.
	leave action = iota
	// take it: it is free and ordered for this node.
	take
	// inherit it from an earlier incarnation of this node.
	inherit
)

func (a action) String() string { return [...]string{"leave", "take", "inherit"}[a] }

// decideRegion says what the session me of node, in its given incarnation, does with a region.
func decideRegion(r regionFacts, node string, incarnation int32) (action, string) {
	switch {
	case r.epoch == math.MaxInt32:
		return leave, "its epoch is exhausted"
	case r.holder == "" && r.target == node:
		return take, "free and ordered for this node"
	case r.holder == "":
		return leave, "free, ordered for another node or for none"
	}
	holder, number, err := v1alpha1.ParseSessionID(r.holder)
	switch {
	case err != nil:
		return leave, "its holder is no session"
	case holder == node && number < incarnation:
		return inherit, "held by an earlier incarnation of this node"
	case holder == node && number == incarnation:
		return leave, "held already"
	case holder == node:
		return leave, "held by a later incarnation of this node"
	}
	return leave, "held by another node"
}

// Bounds of the waits between attempts on one region.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// backoff returns how long to wait after the nth failure in a row, n >= 1.
func backoff(n int) time.Duration {
	if n > 10 {
		return maxBackoff
	}
	return min(firstBackoff<<(n-1), maxBackoff)
}
