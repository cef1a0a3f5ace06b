package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"unicode/utf8"

	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/audit"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/torus"
)

const (
	// Format names what the file is.
	Format = "spatialcells-world"
	// Version is how it is written.
	Version = 1
	// MaxLine bounds a line, in bytes. The largest ground and the largest record need less than half of it.
	MaxLine = 8 << 20
	// MaxLines bounds the lines of a file.
	MaxLines = 1 << 24
	// maxAccountFields and maxAccountValue bound an entry of the directory.
	maxAccountFields = 64
	maxAccountValue  = 4 * store.MaxName
)

// Header is what a file says about itself.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// StoreID is whose store it was; empty: nobody's.
	StoreID string `json:"storeID,omitempty"`
	// Taken is when, in the form of RFC 3339.
	Taken string `json:"taken,omitempty"`
	// Grid is the shape of the world, if whoever made the file knew it.
	Grid *Grid `json:"grid,omitempty"`
}

// Grid is the shape of a world.
type Grid struct {
	Columns          int `json:"columns"`
	Rows             int `json:"rows"`
	RegionEdgeChunks int `json:"regionEdgeChunks"`
}

// Counts are how many keys of each kind are in a file, each counted as often as it has a line.
type Counts struct {
	Lines    int `json:"lines"`
	Records  int `json:"records"`
	Grounds  int `json:"grounds"`
	Accounts int `json:"accounts"`
	Fences   int `json:"fences"`
	Tokens   int `json:"tokens"`
}

func (c *Counts) add(k store.KeyKind) {
	c.Lines++
	switch k {
	case store.KeyRecord:
		c.Records++
	case store.KeyGround:
		c.Grounds++
	case store.KeyAccount:
		c.Accounts++
	case store.KeyFence:
		c.Fences++
	case store.KeyToken:
		c.Tokens++
	}
}

type end struct {
	Counts
	SHA256 string `json:"sha256"`
}

// Entry is one key.
type Entry struct {
	Key string `json:"key,omitempty"`
	// Hash has names and values in turn; String is the value of a key that is none. Neither: the key is not there.
	Hash   []Text `json:"hash,omitempty"`
	String *Text  `json:"string,omitempty"`
	// Expires is Unix milliseconds; 0: never.
	Expires int64 `json:"expires,omitempty"`
}

// Gone reports whether it says that the key is not there.
func (e Entry) Gone() bool { return len(e.Hash) == 0 && e.String == nil }

// fields are names and values as a store replies them.
func (e Entry) fields() []any {
	fields := make([]any, len(e.Hash))
	for i, t := range e.Hash {
		fields[i] = string(t)
	}
	return fields
}

// Text is any bytes.
type Text string

// MarshalJSON writes a string, or base64 if that would not keep each byte.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"base64": []byte(t)})
}

// UnmarshalJSON reads either form.
func (t *Text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		err := json.Unmarshal(b, &s)
		*t = Text(s)
		return err
	}
	var coded struct {
		Base64 *[]byte `json:"base64"`
	}
	if err := strict(b, &coded); err != nil {
		return err
	}
	if coded.Base64 == nil {
		return errors.New("a value is neither a string nor base64")
	}
	*t = Text(*coded.Base64)
	return nil
}

// line is one line of a file: exactly one of a header, an entry and an end.
type line struct {
	World *Header `json:"world,omitempty"`
	Entry
	End *end `json:"end,omitempty"`
}

// check reports why an entry is none that a store could have.
func (e Entry) check() error {
	k := store.ParseKey(e.Key)
	switch {
	case e.Gone():
		if k.Kind != store.KeyRecord && k.Kind != store.KeyGround || e.Expires != 0 {
			return errors.New("a key that is no holder's is said not to be there")
		}
		return nil
	case e.Expires != 0 && k.Kind != store.KeyToken || e.Expires < 0:
		return errors.New("it expires")
	}
	hash := e.String == nil
	switch k.Kind {
	case store.KeyRecord, store.KeyGround:
		if !hash {
			break
		}
		return e.checkHolder(k)
	case store.KeyAccount:
		if !hash {
			break
		}
		return e.checkAccount()
	case store.KeyFence:
		if hash || len(e.Hash) > 0 {
			break
		}
		_, err := audit.ReadFence(string(*e.String))
		return err
	case store.KeyToken:
		if hash || len(e.Hash) > 0 {
			break
		}
		if e.Expires == 0 || *e.String != "1" {
			return errors.New("a used token does not expire, or has a value")
		}
		return nil
	default:
		return errors.New("it is no key of a world")
	}
	return errors.New("it is of another type than its key")
}

func (e Entry) checkHolder(k store.Key) error {
	if n := len(e.Hash); n%2 != 0 || n > 2*store.MaxFields(k.Holder.OnGround()) {
		return fmt.Errorf("it has %d names and values", n)
	}
	if e.void() {
		return nil
	}
	_, found, err := store.DecodeHolder(k.Holder, e.fields())
	if err == nil && !found {
		err = errors.New("it is no record")
	}
	return err
}

// void reports whether it says that the creation of a record was given up.
func (e Entry) void() bool { return len(e.Hash) == 2 && e.Hash[0] == "void" && e.Hash[1] == "1" }

func (e Entry) checkAccount() error {
	if n := len(e.Hash); n%2 != 0 || n > 2*maxAccountFields {
		return fmt.Errorf("it has %d names and values", n)
	}
	for _, t := range e.Hash {
		if len(t) > maxAccountValue {
			return fmt.Errorf("it has a value of %d bytes", len(t))
		}
	}
	_, err := audit.ReadAccount(e.account())
	return err
}

// account are the values that the auditor reads.
func (e Entry) account() []any {
	values := make([]any, 4)
	for i := 0; i+1 < len(e.Hash); i += 2 {
		for n, name := range []Text{"master", "epoch", "login", "since"} {
			if e.Hash[i] == name {
				values[n] = string(e.Hash[i+1])
			}
		}
	}
	return values
}

func (h Header) check() error {
	switch {
	case h.Format != Format:
		return fmt.Errorf("its format is %.32q: it is no file of a world", h.Format)
	case h.Version != Version:
		return fmt.Errorf("it is of version %d, and this program knows %d: use a newer one", h.Version, Version)
	case len(h.StoreID) > connect.MaxID || len(h.Taken) > 64:
		return errors.New("its header is too long")
	case h.Grid != nil:
		_, err := torus.NewGrid(h.Grid.Columns, h.Grid.Rows, h.Grid.RegionEdgeChunks)
		return err
	}
	return nil
}

// Writer writes a file.
type Writer struct {
	gzip   *gzip.Writer
	sum    hash.Hash
	counts Counts
}

// NewWriter begins a file. Format and version of the header are set.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Format, h.Version = Format, Version
	f := &Writer{gzip: gzip.NewWriter(w), sum: sha256.New()}
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("writing the header: %w", err)
	}
	return f, f.line(line{World: &h})
}

// Put adds an entry, if it is one that a reader takes.
func (f *Writer) Put(e Entry) error {
	if err := e.check(); err != nil {
		return fmt.Errorf("key %.80q: %w", e.Key, err)
	}
	f.counts.add(store.ParseKey(e.Key).Kind)
	return f.line(line{Entry: e})
}

// Close ends the file, but not what it is written to.
func (f *Writer) Close() error {
	if err := f.line(line{End: &end{f.counts, hex.EncodeToString(f.sum.Sum(nil))}}); err != nil {
		return err
	}
	if err := f.gzip.Close(); err != nil {
		return fmt.Errorf("writing the end: %w", err)
	}
	return nil
}

func (f *Writer) line(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("writing a line: %w", err)
	}
	if b = append(b, '\n'); len(b) > MaxLine {
		return fmt.Errorf("key %.80q needs a line of %d bytes: at most %d", l.Key, len(b), MaxLine)
	}
	f.sum.Write(b)
	if _, err := f.gzip.Write(b); err != nil {
		return fmt.Errorf("writing a line: %w", err)
	}
	return nil
}

// Reader reads a file.
type Reader struct {
	// Header is how the file begins.
	Header Header

	lines  *bufio.Scanner
	sum    hash.Hash
	counts Counts
	number int
}

// NewReader reads how a file begins.
func NewReader(r io.Reader) (*Reader, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("the file is not in gzip: %w", err)
	}
	return newReader(z)
}

func newReader(plain io.Reader) (*Reader, error) {
	f := &Reader{lines: bufio.NewScanner(plain), sum: sha256.New()}
	f.lines.Buffer(make([]byte, 0, 4096), MaxLine)
	f.lines.Split(wholeLines)
	l, text, err := f.next()
	if err != nil {
		return nil, f.at(err)
	}
	if l.World == nil || l.End != nil || l.Key != "" {
		return nil, f.at(errors.New("the file does not begin with a header: it is no file of a world"))
	}
	f.sum.Write(text)
	f.Header = *l.World
	if err := f.Header.check(); err != nil {
		return nil, f.at(err)
	}
	return f, nil
}

// Next returns the next entry, or io.EOF when the file has ended as it was written.
func (f *Reader) Next() (Entry, error) {
	l, text, err := f.next()
	switch {
	case err != nil:
		return Entry{}, f.at(err)
	case l.World != nil || (l.End == nil) == (l.Key == ""):
		return Entry{}, f.at(errors.New("it is neither a key nor the end"))
	case l.End != nil:
		return Entry{}, f.end(*l.End)
	}
	f.sum.Write(text)
	if err := l.Entry.check(); err != nil {
		return Entry{}, f.at(fmt.Errorf("key %.80q: %w", l.Key, err))
	}
	f.counts.add(store.ParseKey(l.Key).Kind)
	return l.Entry, nil
}

// end compares what was read with what was written.
func (f *Reader) end(e end) error {
	switch {
	case e.SHA256 != f.checksum():
		return f.at(errors.New("the checksum is another: the file is damaged"))
	case e.Counts != f.counts:
		return f.at(fmt.Errorf("it counts %+v, but there were %+v: the file is damaged", e.Counts, f.counts))
	case f.lines.Scan():
		return f.at(errors.New("something follows the end"))
	case f.lines.Err() != nil:
		return f.at(f.lines.Err())
	}
	return io.EOF
}

// checksum is that of all lines but the last.
func (f *Reader) checksum() string { return hex.EncodeToString(f.sum.Sum(nil)) }

// next reads a line. The text is valid until the next one.
func (f *Reader) next() (l line, text []byte, err error) {
	if f.number++; f.number > MaxLines {
		return l, nil, fmt.Errorf("there are more than %d lines", MaxLines)
	}
	if !f.lines.Scan() {
		if err := f.lines.Err(); err != nil {
			return l, nil, err
		}
		return l, nil, fmt.Errorf("the file breaks off: %w", io.ErrUnexpectedEOF)
	}
	text = f.lines.Bytes()
	return l, text, strict(text, &l)
}

func (f *Reader) at(err error) error { return fmt.Errorf("reading line %d: %w", f.number, err) }

// wholeLines splits into lines with their ends, which the checksum is over.
func wholeLines(data []byte, last bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if last && len(data) > 0 {
		return 0, nil, fmt.Errorf("a line breaks off: %w", io.ErrUnexpectedEOF)
	}
	return 0, nil, nil
}

// strict reads one JSON value of known fields.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows a value")
	}
	return nil
}
