package ground

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/flate"

	"github.com/spatialcells/spatialcells/api/wire"
)

const (
	// PayloadVersion is the first byte of a run-length coded payload.
	PayloadVersion = 1
	// MaxPayload is the size of the largest payload, in bytes: each column a run of its own, with 1 byte of length, 1 of
	// surface and 3 of height.
	MaxPayload = 1 + len(Chunk{})*5
	// compression is the DEFLATE level: a payload is made once and sent to many.
	compression = 6
)

// AppendRuns appends the run-length coded payload of a chunk; README.md beside the parent package has the format.
func AppendRuns(b []byte, c *Chunk) []byte {
	b = append(b, PayloadVersion)
	height := int64(0)
	for i := 0; i < len(c); {
		run := 1
		for i+run < len(c) && c[i+run] == c[i] {
			run++
		}
		head := uint64(run-1) << 1
		if c[i].Walkable {
			head |= 1
		}
		b = append(binary.AppendUvarint(b, head), byte(c[i].Surface))
		b = binary.AppendVarint(b, int64(c[i].Height)-height)
		height = int64(c[i].Height)
		i += run
	}
	return b
}

// Encoder makes payloads. It is for one goroutine.
type Encoder struct {
	runs    []byte
	deflate bytes.Buffer
	writer  *flate.Writer
}

// NewEncoder returns an encoder.
func NewEncoder() *Encoder {
	w, err := flate.NewWriter(io.Discard, compression)
	if err != nil {
		panic("ground: " + err.Error()) // the level is a constant that exists
	}
	return &Encoder{writer: w}
}

// Encode returns the payload of a chunk: run-length coded, and compressed when that makes it smaller.
func (e *Encoder) Encode(c *Chunk) (wire.ChunkData_Encoding, []byte) {
	e.runs = AppendRuns(e.runs[:0], c)
	e.deflate.Reset()
	e.writer.Reset(&e.deflate)
	_, err := e.writer.Write(e.runs)
	if err = errors.Join(err, e.writer.Close()); err != nil || e.deflate.Len() >= len(e.runs) { // a buffer never fails
		return wire.ChunkData_ENCODING_RLE, bytes.Clone(e.runs)
	}
	return wire.ChunkData_ENCODING_RLE_DEFLATE, bytes.Clone(e.deflate.Bytes())
}

// Decode reads a payload into a chunk, which is undefined after an error. It accepts any bytes and never needs more than
// MaxPayload of memory beside them.
func Decode(encoding wire.ChunkData_Encoding, payload []byte, into *Chunk) error {
	if len(payload) > MaxPayload {
		return fmt.Errorf("chunk payload of %d bytes: at most %d are possible", len(payload), MaxPayload)
	}
	switch encoding {
	case wire.ChunkData_ENCODING_RLE:
		return decodeRuns(payload, into)
	case wire.ChunkData_ENCODING_RLE_DEFLATE:
		r := flate.NewReader(bytes.NewReader(payload))
		defer r.Close()
		runs, err := io.ReadAll(io.LimitReader(r, int64(MaxPayload)+1))
		if err != nil {
			return fmt.Errorf("decompressing a chunk payload: %w", err)
		}
		return decodeRuns(runs, into)
	}
	return fmt.Errorf("chunk payload of encoding %v: not known", encoding)
}

// decodeRuns reads a run-length coded payload, which must fill the chunk exactly.
func decodeRuns(b []byte, into *Chunk) error {
	if len(b) == 0 || b[0] != PayloadVersion {
		return fmt.Errorf("chunk payload: the first byte is not the version %d", PayloadVersion)
	}
	b = b[1:]
	height := int64(0)
	for filled := 0; filled < len(into); {
		run, column, size, err := decodeRun(b, height)
		switch {
		case err != nil:
			return fmt.Errorf("chunk payload, column %d: %w", filled, err)
		case run > uint64(len(into)-filled):
			return fmt.Errorf("chunk payload, column %d: a run of %d leaves the chunk", filled, run)
		}
		for range run {
			into[filled] = column
			filled++
		}
		height, b = int64(column.Height), b[size:]
	}
	if len(b) > 0 {
		return fmt.Errorf("chunk payload: %d bytes follow the last column", len(b))
	}
	return nil
}

// decodeRun reads one run and the number of bytes that it takes.
func decodeRun(b []byte, height int64) (run uint64, c Column, size int, err error) {
	head, n := binary.Uvarint(b)
	if n <= 0 || n >= len(b) {
		return 0, c, 0, errors.New("truncated")
	}
	if c.Surface = Surface(b[n]); c.Surface == 0 || c.Surface > LastSurface {
		return 0, c, 0, fmt.Errorf("surface %d is not known", b[n])
	}
	delta, m := binary.Varint(b[n+1:])
	if m <= 0 {
		return 0, c, 0, errors.New("truncated")
	}
	if delta < 2*math.MinInt16 || delta > 2*math.MaxInt16+1 || height+delta != int64(int16(height+delta)) {
		return 0, c, 0, fmt.Errorf("height %d%+d is out of range", height, delta)
	}
	c.Height, c.Walkable = int16(height+delta), head&1 == 1
	return head>>1 + 1, c, n + 1 + m, nil
}
