package route

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The codecs of both halves: protobuf wire format, written and read by hand because nothing else reads it.
//
//	queue:   1 life, 2 n of the last command, 3 target ...
//	target:  1 entity, 2 home, 3 command ...            command: 1 life, 2 n, 3 order
//	log:     3 sender ...                               sender:  1 entity, 2 life, 3 n, 4 ticks since it was heard of

var errCommands = errors.New("malformed command queue or log")

// Append encodes the queue after dst: the last number, and the targets that commands are open to.
func (q *CommandQueue) Append(dst []byte) []byte {
	dst = appendVarints(dst, uint64(q.last.Life), q.last.N)
	var body []byte
	for i := range q.targets {
		if t := &q.targets[i]; len(t.open) > 0 {
			body = t.append(body[:0])
			dst = protowire.AppendBytes(protowire.AppendTag(dst, 3, protowire.BytesType), body)
		}
	}
	return dst
}

func (t *Target) append(dst []byte) []byte {
	dst = appendVarints(dst, t.Entity, uint64(t.Home))
	var body []byte
	for _, c := range t.open {
		body = appendVarints(body[:0], uint64(c.Number.Life), c.Number.N)
		body = protowire.AppendBytes(protowire.AppendTag(body, 3, protowire.BytesType), c.Order)
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 3, protowire.BytesType), body)
	}
	return dst
}

// Decode replaces the queue by an encoded one. Nothing of it counts as sent.
func (q *CommandQueue) Decode(b []byte) error {
	var out CommandQueue
	var fields varints
	err := fields.read(b, func(body []byte) error {
		if len(out.targets) >= MaxTargets {
			return fmt.Errorf("%w: more than %d targets", errCommands, MaxTargets)
		}
		var t Target
		if err := t.decode(body); err != nil {
			return err
		}
		if out.Target(t.Entity) != nil {
			return fmt.Errorf("%w: target %d comes twice", errCommands, t.Entity)
		}
		out.targets = append(out.targets, t)
		return nil
	})
	if err != nil {
		return err
	}
	if out.last, err = fields.number(1); err != nil {
		return err
	}
	for i := range out.targets {
		if open := out.targets[i].open; out.last.Less(open[len(open)-1].Number) {
			return fmt.Errorf("%w: a command above the last number", errCommands)
		}
	}
	*q = out
	return nil
}

// maxHome bounds a region index: more than any grid has.
const maxHome = 1 << 24

func (t *Target) decode(b []byte) error {
	var fields varints
	var last Number
	err := fields.read(b, func(body []byte) error {
		c, err := decodeCommand(body)
		if err != nil {
			return err
		}
		if len(t.open) >= Window || !last.Less(c.Number) {
			return fmt.Errorf("%w: more than %d commands, or out of order", errCommands, Window)
		}
		last = c.Number
		t.open = append(t.open, c)
		return nil
	})
	if err != nil {
		return err
	}
	t.Entity, t.Home = fields[1], int(min(fields[2], maxHome))
	if t.Entity == 0 || fields[2] >= maxHome || len(t.open) == 0 {
		return fmt.Errorf("%w: target %d at home in region %d, %d commands", errCommands, t.Entity, t.Home, len(t.open))
	}
	return nil
}

func decodeCommand(b []byte) (c Command, err error) {
	var fields varints
	err = fields.read(b, func(order []byte) error {
		if len(order) > MaxOrder {
			return fmt.Errorf("%w: order of %d bytes", errCommands, len(order))
		}
		c.Order = append([]byte{}, order...)
		return nil
	})
	if err == nil {
		c.Number, err = fields.number(1)
	}
	return c, err
}

// Append encodes the log after dst. Ages travel, never ticks.
func (l *CommandLog) Append(dst []byte, tick int64) []byte {
	var body []byte
	for _, s := range l.senders {
		age := min(max(tick-s.heard, 0), IdleTicks)
		body = appendVarints(body[:0], s.entity, uint64(s.last.Life), s.last.N, uint64(age))
		dst = protowire.AppendBytes(protowire.AppendTag(dst, 3, protowire.BytesType), body)
	}
	return dst
}

// Decode replaces the log by an encoded one.
func (l *CommandLog) Decode(b []byte, tick int64) error {
	var out CommandLog
	var outer varints
	before := uint64(0)
	err := outer.read(b, func(body []byte) error {
		var fields varints
		if err := fields.read(body, func([]byte) error { return errCommands }); err != nil {
			return err
		}
		number, err := fields.number(2)
		if err != nil || fields[1] <= before || fields[4] > IdleTicks || len(out.senders) >= MaxSenders {
			return fmt.Errorf("%w: sender %d", errCommands, fields[1])
		}
		before = fields[1]
		out.senders = append(out.senders, sender{fields[1], number, tick - int64(fields[4])})
		return nil
	})
	if err != nil {
		return err
	}
	*l = out
	return nil
}

// appendVarints encodes values as fields 1, 2, ...
func appendVarints(dst []byte, values ...uint64) []byte {
	for i, v := range values {
		dst = protowire.AppendTag(dst, protowire.Number(i+1), protowire.VarintType)
		dst = protowire.AppendVarint(dst, v)
	}
	return dst
}

// varints are the fields 1 to 4 of a message, as far as they are numbers.
type varints [5]uint64

// read takes a message apart: numbers are kept, each field 3 of bytes is given to nested. Other fields are passed over.
func (v *varints) read(b []byte, nested func([]byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errCommands
		}
		b = b[n:]
		switch {
		case typ == protowire.VarintType && num < protowire.Number(len(v)):
			v[num], n = protowire.ConsumeVarint(b)
		case typ == protowire.BytesType && num == 3:
			var body []byte
			if body, n = protowire.ConsumeBytes(b); n >= 0 {
				if err := nested(body); err != nil {
					return err
				}
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errCommands
		}
		b = b[n:]
	}
	return nil
}

// number reads life and n from two fields in a row.
func (v *varints) number(life int) (Number, error) {
	if v[life] > 1<<32-1 {
		return Number{}, fmt.Errorf("%w: life %d", errCommands, v[life])
	}
	return Number{uint32(v[life]), v[life+1]}, nil
}
