package ground

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/flate"
	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/torus"
)

// anyChunk draws a chunk out of a few values, so that runs of all lengths occur, or of values all different.
func anyChunk() *rapid.Generator[Chunk] {
	return rapid.Custom(func(t *rapid.T) Chunk {
		palette := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Column {
			return Column{
				Height:   rapid.Int16().Draw(t, "height"),
				Surface:  Surface(rapid.IntRange(1, int(LastSurface)).Draw(t, "surface")),
				Walkable: rapid.Bool().Draw(t, "walkable"),
			}
		}), 1, 8).Draw(t, "palette")
		var c Chunk
		for i := 0; i < len(c); {
			run := rapid.IntRange(1, 400).Draw(t, "run")
			column := rapid.SampledFrom(palette).Draw(t, "column")
			for ; run > 0 && i < len(c); run-- {
				c[i] = column
				i++
			}
		}
		return c
	})
}

func TestPayloadsComeBackAsTheyWere(t *testing.T) {
	e := NewEncoder()
	rapid.Check(t, func(t *rapid.T) {
		c := anyChunk().Draw(t, "chunk")
		encoding, payload := e.Encode(&c)
		var back Chunk
		if err := Decode(encoding, payload, &back); err != nil {
			t.Fatal(err)
		}
		if back != c {
			t.Fatal("the chunk changed on the way")
		}
	})
}

func TestTheLargestPayloadIsWithinTheBound(t *testing.T) {
	var c Chunk
	for i := range c {
		c[i] = Column{Height: -32768, Surface: Surface(1 + i%2)}
		if i%2 == 1 {
			c[i].Height = 32767
		}
	}
	runs := AppendRuns(nil, &c)
	if len(runs) > MaxPayload {
		t.Fatalf("%d bytes, more than the bound of %d", len(runs), MaxPayload)
	}
	var back Chunk
	if err := Decode(wire.ChunkData_ENCODING_RLE, runs, &back); err != nil || back != c {
		t.Fatalf("the extremes do not come back: %v", err)
	}
}

func TestFlatGroundIsSentUncompressed(t *testing.T) {
	var c Chunk
	for i := range c {
		c[i] = Column{Surface: Grass, Walkable: true}
	}
	if encoding, payload := NewEncoder().Encode(&c); encoding != wire.ChunkData_ENCODING_RLE || len(payload) != 5 {
		t.Fatalf("encoding %v, %d bytes", encoding, len(payload))
	}
}

func deflated(b []byte) []byte {
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, 9)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func TestBrokenPayloadsAreRefused(t *testing.T) {
	rle, packed := wire.ChunkData_ENCODING_RLE, wire.ChunkData_ENCODING_RLE_DEFLATE
	flat := []byte{1, 0xfe, 0x0f, byte(Grass), 0} // 1024 columns at 0 m
	var c Chunk
	if err := Decode(rle, flat, &c); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for name, test := range map[string]struct {
		encoding wire.ChunkData_Encoding
		payload  []byte
	}{
		"nothing":            {rle, nil},
		"another version":    {rle, []byte{2, 0xfe, 0x0f, 4, 0}},
		"too short a chunk":  {rle, []byte{1, 0xfc, 0x0f, 4, 0}},
		"too long a run":     {rle, []byte{1, 0x80, 0x10, 4, 0}},
		"an endless run":     {rle, []byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 4, 0}},
		"an overlong varint": {rle, []byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 4, 0}},
		"no surface":         {rle, []byte{1, 0xfe, 0x0f, 0, 0}},
		"unknown surface":    {rle, []byte{1, 0xfe, 0x0f, byte(LastSurface) + 1, 0}},
		"no height":          {rle, []byte{1, 0xfe, 0x0f, 4}},
		"too high":           {rle, []byte{1, 0xfe, 0x0f, 4, 0x80, 0x80, 0x04}},
		"height overflow":    {rle, []byte{1, 0, 4, 2, 0xfc, 0x0f, 4, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
		"a tail":             {rle, append(bytes.Clone(flat), 0)},
		"too large":          {rle, make([]byte, MaxPayload+1)},
		"not deflated":       {packed, flat},
		"a bomb":             {packed, deflated(make([]byte, 4<<20))},
		"held":               {wire.ChunkData_ENCODING_HELD, flat},
		"no encoding":        {wire.ChunkData_ENCODING_UNSPECIFIED, flat},
	} {
		if err := Decode(test.encoding, test.payload, &c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	var c Chunk
	generator(f, 1, 1, 15).Chunk(torus.ChunkPos{}, &c)
	encoding, payload := NewEncoder().Encode(&c)
	f.Add(uint8(encoding), payload)
	f.Add(uint8(wire.ChunkData_ENCODING_RLE), AppendRuns(nil, &c))
	f.Add(uint8(wire.ChunkData_ENCODING_RLE), []byte{1, 0xfe, 0x0f, 4, 0})
	f.Fuzz(func(t *testing.T, encoding uint8, payload []byte) {
		var first, second Chunk
		if Decode(wire.ChunkData_Encoding(encoding), payload, &first) != nil {
			return
		}
		if err := Decode(wire.ChunkData_ENCODING_RLE, AppendRuns(nil, &first), &second); err != nil || first != second {
			t.Fatalf("an accepted payload does not survive another round: %v", err)
		}
	})
}
