package ghost

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
)

// TestFieldNumbersAreThoseOfTheContract: frames are read and written without reflection, so the numbers are held here
// against the generated descriptors.
func TestFieldNumbersAreThoseOfTheContract(t *testing.T) {
	for _, c := range []struct {
		message proto.Message
		fields  map[protoreflect.Name]int
	}{
		{&wire.EntityFrame{}, map[protoreflect.Name]int{
			"entity": frameEntity, "kind": frameKind, "epoch": frameEpoch, "chunk": frameChunk, "home": frameHome, "account": frameAccount,
			"components": frameComponents, "events": frameEvents, "vanish": frameVanish, "to_session": frameTo, "reset": frameReset, "fixed": frameFixed,
		}},
		{&wire.Epoch{}, map[protoreflect.Name]int{"recoveries": epochRecoveries, "transfers": epochTransfers}},
		{&wire.EntityUpdate{}, map[protoreflect.Name]int{"components": updateComponents, "events": updateEvents}},
		{&wire.ComponentUpdate{}, map[protoreflect.Name]int{"removed": componentRemoved, "age_ticks": componentAge}},
	} {
		d := c.message.ProtoReflect().Descriptor()
		for name, number := range c.fields {
			if f := d.Fields().ByName(name); f == nil || int(f.Number()) != number {
				t.Errorf("%s.%s is not field %d", d.Name(), name, number)
			}
		}
		if d.Name() == "EntityFrame" && d.Fields().Len() != len(c.fields) {
			t.Errorf("EntityFrame has %d fields, the codec knows %d", d.Fields().Len(), len(c.fields))
		}
	}
	oneof := (&wire.ComponentUpdate{}).ProtoReflect().Descriptor().Oneofs().ByName("component")
	for i := range oneof.Fields().Len() {
		if n := oneof.Fields().Get(i).Number(); n > MaxComponent {
			t.Errorf("component %d is above MaxComponent", n)
		}
	}
}

func TestAFrameIsWhatTheGeneratedCodeReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Frame{
			Entity: ecs.EntityID(rapid.Uint64().Draw(t, "entity")), Kind: wire.EntityFrame_Kind(rapid.IntRange(0, 4).Draw(t, "kind")),
			Epoch: ecs.Epoch{Recoveries: rapid.Uint32().Draw(t, "recoveries"), Transfers: rapid.Uint32().Draw(t, "transfers")},
			Chunk: rapid.Uint64().Draw(t, "chunk"), Home: rapid.Uint32().Draw(t, "home"), Account: rapid.Uint64().Draw(t, "account"),
			Components: AppendComponent(nil, []byte{0x0a, 0}, rapid.Uint32().Draw(t, "age")), Events: rapid.SliceOf(rapid.Byte()).Draw(t, "events"),
			Vanish: wire.VanishReason(rapid.IntRange(0, 3).Draw(t, "vanish")), To: rapid.StringMatching(`[a-z#0-9]*`).Draw(t, "to"),
			Reset: rapid.Bool().Draw(t, "reset"), Fixed: rapid.Bool().Draw(t, "fixed"),
		}
		b := f.Append(nil)
		var m wire.EntityFrame
		if err := proto.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if m.Entity != uint64(f.Entity) || m.Kind != f.Kind || m.Epoch.GetRecoveries() != f.Epoch.Recoveries || m.Epoch.GetTransfers() != f.Epoch.Transfers ||
			m.Chunk != f.Chunk || m.Home != f.Home || m.Account != f.Account || !bytes.Equal(m.Components, f.Components) ||
			!bytes.Equal(m.Events, f.Events) || m.Vanish != f.Vanish || m.ToSession != f.To || m.Reset_ != f.Reset || m.Fixed != f.Fixed {
			t.Fatalf("%+v was read as %v", f, &m)
		}
		again, err := proto.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		var back Frame
		if err := back.Decode(again); err != nil {
			t.Fatal(err)
		}
		if back.Entity != f.Entity || back.Epoch != f.Epoch || back.Chunk != f.Chunk || !bytes.Equal(back.Events, f.Events) || back.To != f.To || back.Reset != f.Reset {
			t.Fatalf("%+v came back as %+v", f, back)
		}
	})
}

func FuzzFrame(f *testing.F) {
	frame := Frame{Entity: 1, Components: AppendComponent(nil, []byte{0x0a, 0}, 3)}
	f.Add(frame.Append(nil))
	f.Add([]byte{0x3a, 0x02, 0x12, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		var frame Frame
		if frame.Decode(b) != nil {
			return
		}
		s := New(func(string) bool { return false }, func(uint64, uint64) bool { return true })
		frame.Kind = wire.EntityFrame_KIND_SNAPSHOT
		s.Apply(10, "a", &frame)
		if r := s.Get(frame.Entity); r != nil {
			if err := proto.Unmarshal(r.AppendAll(nil, 12), &wire.EntityUpdate{}); err != nil && len(frame.Events) == 0 {
				return // bodies are not decoded here: an invalid one reaches the client as it came
			}
		}
	})
}
