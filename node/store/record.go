package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// recordFields are the fields of a record that a reader needs, in the order in which the scripts return them. The blob
// comes last, so that it can be left out.
var recordFields = []string{"format", "recoveries", "transfers", "column", "row", "account", "resting", "blob"}

const (
	// recordFormat is the format of records and grounds that this code writes.
	recordFormat = "2"
	// formatWithoutContents is read, too: scripts change it to the other one when they claim or write. All others are
	// refused.
	formatWithoutContents = "1"
)

// errReply is wrapped by every error about what a store returned: it holds something that this code did not write, or
// does not understand.
var errReply = errors.New("not as written by this program")

func malformed(what string, args ...any) error {
	return fmt.Errorf(what+": %w", append(args, errReply)...)
}

// decodeRecord reads the fields of a record but its contents. All fields absent means that there is no record: found is false. Without
// its last field a record is read without blob.
func decodeRecord(id ecs.EntityID, reply any) (rec zone.Record, found bool, err error) {
	values, ok := reply.([]any)
	if !ok || len(values) < len(recordFields)-1 || len(values) > len(recordFields) {
		return rec, false, malformed("record %d of %d values", id, len(values))
	}
	if allAbsent(values) {
		return rec, false, nil
	}
	d := fieldReader{values: values}
	if format := d.text(0); d.err == nil && format != recordFormat && format != formatWithoutContents {
		return rec, false, malformed("record %d has format %.16q", id, format)
	}
	rec = zone.Record{
		Entity:  id,
		Epoch:   zone.Epoch{Recoveries: uint32(d.number(1, 32)), Transfers: uint32(d.number(2, 32))},
		Home:    torus.RegionPos{Column: int32(d.number(3, 31)), Row: int32(d.number(4, 31))},
		Account: d.number(5, 64),
		Resting: d.number(6, 1) == 1,
	}
	if len(values) == len(recordFields) {
		rec.Blob = []byte(d.text(len(recordFields) - 1))
	}
	if d.err == nil {
		d.err = checkRecord(rec)
	}
	if d.err != nil {
		return zone.Record{}, false, malformed("record %d: %v", id, d.err)
	}
	return rec, true, nil
}

func allAbsent(values []any) bool {
	for _, v := range values {
		if v != nil {
			return false
		}
	}
	return true
}

// fieldReader reads values of a reply and keeps the first error.
type fieldReader struct {
	values []any
	err    error
}

// text reads value i, a string.
func (d *fieldReader) text(i int) string {
	if i >= len(d.values) {
		d.fail("value %d is missing", i)
		return ""
	}
	s, ok := d.values[i].(string)
	if !ok {
		d.fail("value %d is no text", i)
	}
	return s
}

// number reads value i, a decimal number of at most so many bits.
func (d *fieldReader) number(i, bits int) uint64 {
	s := d.text(i)
	if d.err != nil {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil || strconv.FormatUint(n, 10) != s {
		d.fail("value %d is no number of %d bits: %.24q", i, bits, s)
		return 0
	}
	return n
}

func (d *fieldReader) fail(what string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(what, args...)
	}
}

// statusOf splits a script's reply into its status and the rest.
func statusOf(reply any) (string, []any, error) {
	values, ok := reply.([]any)
	if !ok || len(values) == 0 {
		return "", nil, malformed("reply of type %T", reply)
	}
	status, ok := values[0].(string)
	if !ok {
		return "", nil, malformed("status of type %T", values[0])
	}
	return status, values[1:], nil
}

// recordAt decodes the record that is value i of a reply.
func recordAt(id ecs.EntityID, values []any, i int) (zone.Record, bool, error) {
	if i >= len(values) {
		return zone.Record{}, false, malformed("reply without record %d", id)
	}
	return decodeHash(id, values[i], true)
}

// presentAt is recordAt where there has to be a record.
func presentAt(id ecs.EntityID, values []any, i int) (zone.Record, error) {
	rec, found, err := recordAt(id, values, i)
	if err == nil && !found {
		err = malformed("record %d without fields", id)
	}
	return rec, err
}

// sessionReply is what the session script replies.
type sessionReply struct {
	sessionClaim
	secret string
	master ecs.EntityID
}

func decodeSession(reply any) (sessionReply, error) {
	values, ok := reply.([]any)
	if !ok || len(values) != 6 {
		return sessionReply{}, malformed("session reply of %d values", len(values))
	}
	d := fieldReader{values: values}
	var s sessionReply
	s.epoch, s.login = d.number(0, 64), d.number(1, 64)
	s.resumed = d.number(2, 1) == 1
	s.previous, s.secret = d.text(3), d.text(4)
	if d.text(5) != "" {
		s.master = ecs.EntityID(d.number(5, 64))
	}
	if d.err == nil && (len(s.previous) > MaxName || len(s.secret) > MaxName) {
		d.fail("gateway or secret above %d bytes", MaxName)
	}
	if d.err != nil {
		return sessionReply{}, malformed("session: %v", d.err)
	}
	return s, nil
}

// reservation is who is an account's master, and for how long.
type reservation struct {
	master ecs.EntityID
	ours   bool
	age    time.Duration
}

func decodeReservation(reply any) (reservation, error) {
	status, rest, err := statusOf(reply)
	if err != nil {
		return reservation{}, err
	}
	d := fieldReader{values: rest}
	r := reservation{
		master: ecs.EntityID(d.number(0, 64)),
		ours:   status == "reserved",
		age:    time.Duration(d.number(1, 33)) * time.Second,
	}
	if d.err != nil || r.master == 0 {
		return reservation{}, malformed("master %d: %v", r.master, d.err)
	}
	return r, nil
}

// decodeIndex reads the ids of an index. Their epochs are the scripts' affair, but have to be some.
func decodeIndex(values []any, i int) ([]ecs.EntityID, error) {
	if i >= len(values) {
		return nil, malformed("reply without index")
	}
	flat, ok := values[i].([]any)
	if !ok || len(flat)%2 != 0 || len(flat) > 2*MaxIndex {
		return nil, malformed("index of %d values", len(flat))
	}
	ids := make([]ecs.EntityID, 0, len(flat)/2)
	d := fieldReader{values: flat}
	for j := 0; j < len(flat) && d.err == nil; j += 2 {
		id := ecs.EntityID(d.number(j, 64))
		if err := checkEpoch(d.text(j + 1)); err != nil || id == 0 {
			d.fail("entry of entity %d: %v", id, err)
		}
		ids = append(ids, id)
	}
	if d.err != nil {
		return nil, malformed("index: %v", d.err)
	}
	return ids, nil
}

// checkEpoch wants "recoveries transfers".
func checkEpoch(s string) error {
	recoveries, transfers, _ := strings.Cut(s, " ")
	d := fieldReader{values: []any{recoveries, transfers}}
	d.number(0, 32)
	d.number(1, 32)
	return d.err
}
