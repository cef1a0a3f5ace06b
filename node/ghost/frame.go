package ghost

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
)

// Frame is a decoded wire.EntityFrame. Its byte slices are parts of the batch it was decoded from.
type Frame struct {
	Entity     ecs.EntityID
	Kind       wire.EntityFrame_Kind
	Epoch      ecs.Epoch
	Chunk      uint64
	Home       uint32
	Account    uint64
	Components []byte
	Events     []byte
	Vanish     wire.VanishReason
	To         string
	Reset      bool
	Fixed      bool // it never moves and never changes its home
}

var errFrame = errors.New("malformed entity frame")

// Field numbers of wire.EntityFrame, wire.Epoch and wire.EntityUpdate. The hot path reads and writes them without
// reflection; a test holds them against the generated descriptors.
const (
	frameEntity, frameKind, frameEpoch, frameChunk, frameHome, frameAccount    = 1, 2, 3, 4, 5, 6
	frameComponents, frameEvents, frameVanish, frameTo, frameReset, frameFixed = 7, 8, 9, 10, 11, 12
	epochRecoveries, epochTransfers                                            = 1, 2
	updateComponents, updateEvents                                             = 2, 3
	componentRemoved, componentAge                                             = 14, 15
)

// Append encodes the frame after dst.
func (f *Frame) Append(dst []byte) []byte {
	dst = protowire.AppendTag(dst, frameEntity, protowire.Fixed64Type)
	dst = protowire.AppendFixed64(dst, uint64(f.Entity))
	dst = appendVarint(dst, frameKind, uint64(f.Kind))
	dst = protowire.AppendTag(dst, frameEpoch, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeVarint(epochRecoveries, uint64(f.Epoch.Recoveries))+sizeVarint(epochTransfers, uint64(f.Epoch.Transfers))))
	dst = appendVarint(dst, epochRecoveries, uint64(f.Epoch.Recoveries))
	dst = appendVarint(dst, epochTransfers, uint64(f.Epoch.Transfers))
	dst = appendVarint(dst, frameChunk, f.Chunk)
	dst = appendVarint(dst, frameHome, uint64(f.Home))
	dst = appendVarint(dst, frameAccount, f.Account)
	dst = appendBytes(dst, frameComponents, f.Components)
	dst = appendBytes(dst, frameEvents, f.Events)
	dst = appendVarint(dst, frameVanish, uint64(f.Vanish))
	if f.To != "" {
		dst = protowire.AppendTag(dst, frameTo, protowire.BytesType)
		dst = protowire.AppendString(dst, f.To)
	}
	if f.Reset {
		dst = appendVarint(dst, frameReset, 1)
	}
	if f.Fixed {
		dst = appendVarint(dst, frameFixed, 1)
	}
	return dst
}

// Decode reads a frame; unknown fields are skipped.
func (f *Frame) Decode(b []byte) error {
	*f = Frame{}
	return eachField(b, func(num protowire.Number, v uint64, body []byte) error {
		switch num {
		case frameEntity:
			f.Entity = ecs.EntityID(v)
		case frameKind:
			f.Kind = wire.EntityFrame_Kind(v)
		case frameEpoch:
			return f.decodeEpoch(body)
		case frameChunk:
			f.Chunk = v
		case frameHome:
			f.Home = uint32(v)
		case frameAccount:
			f.Account = v
		case frameComponents:
			f.Components = body
		case frameEvents:
			f.Events = body
		case frameVanish:
			f.Vanish = wire.VanishReason(v)
		case frameTo:
			f.To = string(body)
		case frameReset:
			f.Reset = v != 0
		case frameFixed:
			f.Fixed = v != 0
		}
		return nil
	})
}

func (f *Frame) decodeEpoch(b []byte) error {
	return eachField(b, func(num protowire.Number, v uint64, _ []byte) error {
		switch num {
		case epochRecoveries:
			f.Epoch.Recoveries = uint32(v)
		case epochTransfers:
			f.Epoch.Transfers = uint32(v)
		}
		return nil
	})
}

// eachField calls fn for every field of a message: v for numbers, body for length-delimited ones.
func eachField(b []byte, fn func(num protowire.Number, v uint64, body []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errFrame
		}
		b = b[n:]
		var v uint64
		var body []byte
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			body, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return errFrame
		}
		if err := fn(num, v, body); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// EachField is eachField for the batch around the frames.
func EachField(b []byte, fn func(num protowire.Number, v uint64, body []byte) error) error {
	return eachField(b, fn)
}

// AppendComponent encodes one ComponentUpdate as field 2 of an EntityUpdate. body is the oneof field with its tag.
func AppendComponent(dst, body []byte, ageTicks uint32) []byte {
	dst = protowire.AppendTag(dst, updateComponents, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(body)+sizeVarint(componentAge, uint64(ageTicks))))
	dst = append(dst, body...)
	return appendVarint(dst, componentAge, uint64(ageTicks))
}

// AppendRemoved encodes the removal of a component as field 2 of an EntityUpdate.
func AppendRemoved(dst []byte, component uint32) []byte {
	dst = protowire.AppendTag(dst, updateComponents, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeVarint(componentRemoved, uint64(component))))
	return appendVarint(dst, componentRemoved, uint64(component))
}

// AppendEvent encodes one EntityEvent as field 3 of an EntityUpdate. body is the oneof field with its tag.
func AppendEvent(dst, body []byte) []byte { return appendBytes(dst, updateEvents, body) }

// eachComponent calls fn for each ComponentUpdate of a frame: its number, its body without the age, its age; removed
// components have no body.
func eachComponent(b []byte, fn func(number uint32, body []byte, age uint32) error) error {
	return eachField(b, func(num protowire.Number, _ uint64, update []byte) error {
		if num != updateComponents {
			return fmt.Errorf("%w: field %d among the components", errFrame, num)
		}
		return splitUpdate(update, fn)
	})
}

func splitUpdate(update []byte, fn func(number uint32, body []byte, age uint32) error) error {
	var number, removed, age uint32
	var body []byte
	for rest := update; len(rest) > 0; {
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return errFrame
		}
		m := protowire.ConsumeFieldValue(num, typ, rest[n:])
		if m < 0 {
			return errFrame
		}
		field := rest[:n+m]
		rest = rest[n+m:]
		switch {
		case num == componentAge && typ == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(field[n:])
			age = uint32(v)
		case num == componentRemoved && typ == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(field[n:])
			removed = uint32(v)
		case typ == protowire.BytesType:
			number, body = uint32(num), field
		}
	}
	if removed != 0 {
		return fn(removed, nil, 0)
	}
	if number == 0 || number > MaxComponent {
		return fmt.Errorf("%w: component %d", errFrame, number)
	}
	return fn(number, body, age)
}

func appendVarint(dst []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, num, protowire.VarintType)
	return protowire.AppendVarint(dst, v)
}

func sizeVarint(num protowire.Number, v uint64) int {
	if v == 0 {
		return 0
	}
	return protowire.SizeTag(num) + protowire.SizeVarint(v)
}

func appendBytes(dst []byte, num protowire.Number, b []byte) []byte {
	if len(b) == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	return protowire.AppendBytes(dst, b)
}
