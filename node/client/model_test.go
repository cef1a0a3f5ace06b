package client_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/torus"
)

func frame(envelopes ...*wire.ServerEnvelope) []byte {
	var b bytes.Buffer
	for _, e := range envelopes {
		if _, err := protodelim.MarshalTo(&b, e); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func welcome(resumed bool, next uint64) *wire.ServerEnvelope {
	return &wire.ServerEnvelope{Message: &wire.ServerEnvelope_Welcome{Welcome: &wire.Welcome{
		Entity: 1, NextInput: next, Resumed: resumed, Columns: 2, Rows: 2, RegionEdgeChunks: 15, TickMilliseconds: 50,
	}}}
}

var welcomeFrame = frame(welcome(false, 1))

func result(n uint64) *wire.ServerEnvelope {
	return &wire.ServerEnvelope{Message: &wire.ServerEnvelope_Result{Result: &wire.InputResult{Number: n, Code: wire.InputResult_CODE_OK}}}
}

func resync() *wire.ServerEnvelope {
	return &wire.ServerEnvelope{Message: &wire.ServerEnvelope_Resync{Resync: &wire.Resync{}}}
}

func batch(sequence, tick uint64, complete bool, updates ...*wire.EntityUpdate) *wire.ServerEnvelope {
	return &wire.ServerEnvelope{Message: &wire.ServerEnvelope_Batch{Batch: &wire.StateBatch{Sequence: sequence, Tick: tick, Updates: updates, SetComplete: complete}}}
}

func at(x, y uint32) *wire.ComponentUpdate {
	return &wire.ComponentUpdate{Component: &wire.ComponentUpdate_Position{Position: &wire.Position{X: x, Y: y}}}
}

func walk(x, y uint32, waypoints ...uint32) *wire.ComponentUpdate {
	return &wire.ComponentUpdate{Component: &wire.ComponentUpdate_Path{Path: &wire.Path{
		From: &wire.Position{X: x, Y: y}, Waypoints: waypoints, SpeedMmPerTick: 200,
	}}}
}

func said(text string) []*wire.EntityEvent {
	return []*wire.EntityEvent{{Event: &wire.EntityEvent_Said{Said: &wire.Said{Text: text}}}}
}

func appear(id uint64, components ...*wire.ComponentUpdate) *wire.EntityUpdate {
	return &wire.EntityUpdate{Entity: id, Appear: true, Components: components}
}

func gone(id uint64, reason wire.VanishReason) *wire.EntityUpdate {
	return &wire.EntityUpdate{Entity: id, Vanish: reason}
}

// everywhere gives the client all chunks around the origin.
func everywhere() []*wire.ServerEnvelope {
	m := &wire.ChunkManifest{Reset_: true}
	list := []*wire.ServerEnvelope{{Message: &wire.ServerEnvelope_Manifest{Manifest: m}}}
	for _, x := range []uint32{28, 29, 0, 1, 2, 3} {
		for _, y := range []uint32{28, 29, 0, 1, 2, 3} {
			m.Added = append(m.Added, x, y)
			list = append(list, &wire.ServerEnvelope{Message: &wire.ServerEnvelope_Chunk{Chunk: &wire.ChunkData{X: x, Y: y}}})
		}
	}
	return list
}

func TestWhatNoClientShouldGetIsAViolation(t *testing.T) {
	out, gonePlayer := wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT, wire.VanishReason_VANISH_REASON_GONE
	for _, tc := range []struct {
		name string
		want client.ViolationKind // empty: none
		got  []*wire.ServerEnvelope
	}{
		{"a quiet life", "", []*wire.ServerEnvelope{batch(1, 10, false, appear(1, at(5, 5))), batch(2, 11, false, &wire.EntityUpdate{Entity: 1, Components: []*wire.ComponentUpdate{walk(5, 5, 15, 5)}}), batch(3, 31, false, &wire.EntityUpdate{Entity: 1, Components: []*wire.ComponentUpdate{at(9, 5)}}), result(1), result(2)}},
		{"a missing batch", client.Hole, []*wire.ServerEnvelope{batch(1, 10, false), batch(3, 11, false)}},
		{"an update before its appearance", client.Hole, []*wire.ServerEnvelope{batch(1, 10, false, &wire.EntityUpdate{Entity: 9, Components: []*wire.ComponentUpdate{at(1, 1)}})}},
		{"an appearance without a position", client.Hole, []*wire.ServerEnvelope{batch(1, 10, false, appear(9))}},
		{"two appearances", client.Double, []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(1, 1)), appear(9, at(1, 1)))}},
		{"a vanish in plain sight", client.Blink, []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(5, 5))), batch(2, 11, false, gone(9, out))}},
		{"a vanish in plain sight over the seam", client.Blink, []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(959, 959))), batch(2, 11, false, gone(9, out))}},
		{"a player who left", "", []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(5, 5))), batch(2, 11, false, gone(9, gonePlayer))}},
		{"a vanish far away", "", []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(500, 500))), batch(2, 11, false, gone(9, out))}},
		{"two vanishes", client.Repeat, []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(500, 500)), gone(9, out), gone(9, out))}},
		{"a jump", client.Teleport, []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(5, 5))), batch(2, 11, false, &wire.EntityUpdate{Entity: 9, Components: []*wire.ComponentUpdate{at(11, 5)}})}},
		{"a jump that is marked", "", []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(5, 5))), batch(2, 11, false, &wire.EntityUpdate{Entity: 9, Reset_: true, Components: []*wire.ComponentUpdate{at(50, 5)}})}},
		{"a step over the seam", "", []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(0, 0))), batch(2, 11, false, &wire.EntityUpdate{Entity: 9, Components: []*wire.ComponentUpdate{at(959, 959)}})}},
		{"a result that is left out", client.Lost, []*wire.ServerEnvelope{result(2)}},
		{"a result that comes twice", client.Repeat, []*wire.ServerEnvelope{result(1), result(1)}},
		{"a full set", "", []*wire.ServerEnvelope{batch(1, 10, false, appear(9, at(5, 5)), appear(8, at(5, 5))), resync(), batch(2, 11, true, appear(9, at(50, 5)))}},
		{"a resume that gives another entity", client.Lost, []*wire.ServerEnvelope{{Message: &wire.ServerEnvelope_Welcome{Welcome: &wire.Welcome{Entity: 2, NextInput: 1, Resumed: true, Columns: 2, Rows: 2, RegionEdgeChunks: 15}}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var m client.Model
			if err := m.Receive(frame(append(append([]*wire.ServerEnvelope{welcome(false, 1)}, everywhere()...), tc.got...)...)); err != nil {
				t.Fatal(err)
			}
			switch {
			case tc.want == "" && m.ViolationCount != 0:
				t.Errorf("it is held against the world: %v", m.Violations)
			case tc.want != "" && (m.ViolationCount != 1 || m.Violations[0].Kind != tc.want):
				t.Errorf("want one %s, got %v", tc.want, m.Violations)
			}
		})
	}
}

func TestAFullSetKeepsWhatIsSentAgainAndMarksIt(t *testing.T) {
	var m client.Model
	receive(t, &m, welcome(false, 1), batch(1, 500, false, appear(1, at(5, 5)), appear(9, at(5, 5)), appear(8, at(5, 5))))
	m.NextConnection()
	receive(t, &m, welcome(true, 1), batch(1, 3, false, appear(1, at(6, 5)), appear(9, at(7, 5), walk(7, 5, 17, 5))))
	if m.Complete || len(m.Entities) != 3 {
		t.Fatalf("before the set is complete all are kept: %d", len(m.Entities))
	}
	receive(t, &m, batch(2, 8, true))
	if len(m.Entities) != 2 || m.Entities[8] != nil || m.Entities[9].Marks != 1 || m.ViolationCount != 0 {
		t.Errorf("entities %v, violations %v", m.Entities, m.Violations)
	}
	if p := m.At(m.Entities[9], 13); p != (torus.Pos{X: 9, Y: 5}) {
		t.Errorf("another gateway counts other ticks: at %v, want 9,5", p)
	}
}

func TestAWordIsAsOldAsItSays(t *testing.T) {
	old := walk(10, 10, 40, 10)
	old.AgeTicks = 400
	stamina := &wire.ComponentUpdate{Component: &wire.ComponentUpdate_Stamina{Stamina: &wire.Stamina{}}}
	var m client.Model
	receive(t, &m, welcome(false, 1))
	for i, c := range []struct {
		batch *wire.ServerEnvelope
		dated uint64
	}{
		{batch(1, 10, true, appear(1, at(10, 10))), 10},
		{batch(2, 20, false, &wire.EntityUpdate{Entity: 1, Events: said("hello")}), 20},
		{batch(3, 420, false, &wire.EntityUpdate{Entity: 1, Components: []*wire.ComponentUpdate{stamina}}), 20}, // of another stream
		{batch(4, 425, false, &wire.EntityUpdate{Entity: 1, Reset_: true, Components: []*wire.ComponentUpdate{old}, Events: said("old")}), 25},
		{batch(5, 430, false, &wire.EntityUpdate{Entity: 1, Reset_: true, Components: []*wire.ComponentUpdate{at(12, 10)}}), 430},
	} {
		receive(t, &m, c.batch)
		if own := m.Own(); own == nil || own.Dated != c.dated || own.Updated != m.Tick {
			t.Errorf("batch %d: %+v, want dated %d", i+1, own, c.dated)
		}
	}
}

func TestChatCarriesTheSightingOfItsSpeaker(t *testing.T) {
	var m client.Model
	receive(t, &m, welcome(false, 1), batch(1, 10, false, appear(9, at(5, 5))))
	receive(t, &m, batch(2, 11, false, &wire.EntityUpdate{Entity: 9, Events: said("#1")}))
	receive(t, &m, batch(3, 12, false, &wire.EntityUpdate{Entity: 9, Reset_: true, Events: said("#3")}))
	heard := m.TakeHeard()
	if len(heard) != 2 || heard[0].Marks != 0 || heard[1].Marks != 1 || heard[1].Appeared != 10 {
		t.Errorf("%+v", heard)
	}
	if len(m.TakeHeard()) != 0 {
		t.Error("heard twice")
	}
}

func receive(t *testing.T, m *client.Model, envelopes ...*wire.ServerEnvelope) {
	t.Helper()
	if err := m.Receive(frame(envelopes...)); err != nil {
		t.Fatal(err)
	}
}

func TestMessagesThatCannotBeAreErrors(t *testing.T) {
	chunk := &wire.ServerEnvelope{Message: &wire.ServerEnvelope_Chunk{Chunk: &wire.ChunkData{X: 30, Y: 0}}}
	for name, data := range map[string][]byte{
		"a batch before Welcome":   frame(batch(1, 1, false)),
		"a chunk beyond the world": frame(welcome(false, 1), chunk),
		"a world of no size":       frame(&wire.ServerEnvelope{Message: &wire.ServerEnvelope_Welcome{Welcome: &wire.Welcome{NextInput: 1}}}),
		"inputs numbered from 0":   frame(welcome(false, 0)),
		"a length beyond the data": {200, 1, 2},
		"garbage":                  {2, 255, 255},
	} {
		var m client.Model
		if err := m.Receive(data); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(frame(batch(1, 10, false, appear(9, at(5, 5), walk(5, 5, 50, 5)))))
	f.Add(frame(append(everywhere(), resync(), result(1), welcome(true, 4))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m client.Model
		if err := m.Receive(welcomeFrame); err != nil {
			t.Fatal(err)
		}
		_ = m.Receive(data)
		for _, s := range m.Entities {
			if p := m.At(s, m.Tick+1000); m.Grid.Wrap(p) != p {
				t.Fatalf("%v is not on the torus", p)
			}
		}
	})
}
