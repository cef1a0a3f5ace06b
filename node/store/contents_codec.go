package store

import (
	"strconv"
	"strings"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// The contents of a holder are fields of its hash. Names begin with what they are of, values are numbers in text.
const (
	itemPrefix = "i:" // serial
	outPrefix  = "o:" // movement
	inPrefix   = "n:" // movement
	editPrefix = "c:" // x,y
)

// maxContentFields bounds the fields of one hash that a reader accepts: those of contents, and a few that later versions
// may add.
func maxContentFields(ground bool) int {
	n := maxItems(ground) + zone.MaxOpen + zone.MaxRemembered + 64
	if ground {
		n += zone.MaxEdits
	}
	return n
}

func field(prefix string, key uint64) string { return prefix + decimal(key) }

func words(numbers ...uint64) string {
	b := make([]byte, 0, 64)
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendUint(b, n, 10)
	}
	return string(b)
}

func encodeItem(i zone.Item) string { return words(uint64(i.Kind), uint64(i.Count)) }

func encodeHeld(h zone.Held, ground bool) string {
	if !ground {
		return encodeItem(h.Item)
	}
	return encodeItem(h.Item) + " " + encodeLying(h.Lying)
}

func encodeLying(l zone.Lying) string {
	return decimal(uint64(l.Entity)) + " " + strconv.FormatInt(l.At.X, 10) + " " + strconv.FormatInt(l.At.Y, 10) + " " +
		strconv.FormatInt(l.At.Z, 10)
}

func encodeHolder(h zone.Holder) string {
	if h.OnGround() {
		return "r" + h.Region.String()
	}
	return "e" + decimal(uint64(h.Entity))
}

func encodeOut(e zone.OutEntry) string {
	return decimal(e.Item.Serial) + " " + encodeItem(e.Item) + " " + encodeHolder(e.To) + " " + encodeLying(e.Lying)
}

func encodeIn(e zone.InEntry) string { return encodeHolder(e.From) + " " + flag(e.Void) }

func editField(e zone.Edit) string {
	return editPrefix + strconv.FormatInt(e.X, 10) + "," + strconv.FormatInt(e.Y, 10)
}

// encodeContents returns the fields of items and entries as name, value, name, value ...
func encodeContents(c zone.Contents, ground bool) []any {
	var fields []any
	for _, h := range c.Items {
		fields = append(fields, field(itemPrefix, h.Serial), encodeHeld(h, ground))
	}
	for _, e := range c.Out {
		fields = append(fields, field(outPrefix, e.Movement), encodeOut(e))
	}
	for _, e := range c.In {
		fields = append(fields, field(inPrefix, e.Movement), encodeIn(e))
	}
	return fields
}

func encodeEdits(edits []zone.Edit) []any {
	var fields []any
	for _, e := range edits {
		fields = append(fields, editField(e), decimal(uint64(e.Depth)))
	}
	return fields
}

// removedFields are the names that a change removes.
func removedFields(ch *zone.Change) []any {
	var names []any
	for _, part := range []struct {
		prefix string
		keys   []uint64
	}{{itemPrefix, ch.RemoveItems}, {outPrefix, ch.RemoveOut}, {inPrefix, ch.RemoveIn}} {
		for _, key := range part.keys {
			names = append(names, field(part.prefix, key))
		}
	}
	return names
}

// contentFields reads contents out of fields. Its zero value has read nothing.
type contentFields struct {
	contents zone.Contents
	ground   bool
	err      error
}

// take reads one field, if it is of contents.
func (f *contentFields) take(name, value string) {
	c := &f.contents
	if len(name) < len(itemPrefix) {
		return
	}
	switch name[:len(itemPrefix)] {
	case itemPrefix:
		w := f.words(name, value)
		h := zone.Held{Item: w.item(w.key(name))}
		if f.ground {
			h.Lying = w.lying()
		}
		c.Items = append(c.Items, h)
		f.end(w)
	case outPrefix:
		w := f.words(name, value)
		e := zone.OutEntry{Movement: w.key(name), Item: w.item(w.number(64)), To: w.holder(), Lying: w.lying()}
		c.Out = append(c.Out, e)
		f.end(w)
	case inPrefix:
		w := f.words(name, value)
		c.In = append(c.In, zone.InEntry{Movement: w.key(name), From: w.holder(), Void: w.number(1) == 1})
		f.end(w)
	case editPrefix:
		w := f.words(name, value)
		x, y, _ := strings.Cut(name[len(editPrefix):], ",")
		c.Edits = append(c.Edits, zone.Edit{X: w.signed(x), Y: w.signed(y), Depth: uint32(w.number(32))})
		f.end(w)
	default:
		f.count(name, value)
	}
}

// count reads a field that counts.
func (f *contentFields) count(name, value string) {
	var n *uint64
	switch name {
	case "moves":
		n = &f.contents.Moves
	case "made":
		n = &f.contents.Made
	case "ended":
		n = &f.contents.Ended
	default:
		return
	}
	w := f.words(name, value)
	*n = w.number(64)
	f.end(w)
}

// whole returns the contents in their order, or why they are none.
func (f *contentFields) whole() (zone.Contents, error) {
	if f.err != nil {
		return zone.Contents{}, f.err
	}
	c := sortContents(f.contents)
	if err := checkContents(c, f.ground); err != nil {
		return zone.Contents{}, err
	}
	return c, nil
}

func (f *contentFields) words(name, value string) *wordReader {
	return &wordReader{name: name, value: value, rest: value, more: true}
}

// end keeps the first error of a value, which may have no words left.
func (f *contentFields) end(w *wordReader) {
	if f.err == nil && (w.bad || w.more) {
		f.err = malformed("field %.64q has %.64q", w.name, w.value)
	}
}

// wordReader reads the words of one value; they are separated by one space each.
type wordReader struct {
	name, value, rest string
	more, bad         bool
}

func (w *wordReader) next() string {
	if !w.more {
		w.bad = true
		return ""
	}
	var word string
	word, w.rest, w.more = strings.Cut(w.rest, " ")
	return word
}

func (w *wordReader) number(bits int) uint64 { return w.unsigned(w.next(), bits) }

// unsigned reads a number as decimal writes it: no sign, no needless zeros.
func (w *wordReader) unsigned(s string, bits int) uint64 {
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil || s[0] == '0' && len(s) > 1 {
		w.bad = true
	}
	return n
}

func (w *wordReader) signed(s string) int64 {
	digits := strings.TrimPrefix(s, "-")
	n := int64(w.unsigned(digits, 62))
	if len(digits) == len(s) {
		return n
	}
	if n == 0 {
		w.bad = true
	}
	return -n
}

// key is the number in a name.
func (w *wordReader) key(name string) uint64 { return w.unsigned(name[len(itemPrefix):], 64) }

func (w *wordReader) item(serial uint64) zone.Item {
	return zone.Item{Serial: serial, Kind: uint32(w.number(32)), Count: uint32(w.number(32))}
}

func (w *wordReader) lying() zone.Lying {
	return zone.Lying{
		Entity: ecs.EntityID(w.number(64)),
		At:     torus.Pos{X: w.signed(w.next()), Y: w.signed(w.next()), Z: w.signed(w.next())},
	}
}

func (w *wordReader) holder() zone.Holder {
	s := w.next()
	if id, is := strings.CutPrefix(s, "e"); is {
		h := zone.Holder{Entity: ecs.EntityID(w.unsigned(id, 64))}
		w.bad = w.bad || h.Entity == 0
		return h
	}
	region, is := strings.CutPrefix(s, "r")
	column, row, _ := strings.Cut(region, ",")
	w.bad = w.bad || !is
	return zone.Holder{Region: torus.RegionPos{Column: int32(w.unsigned(column, 31)), Row: int32(w.unsigned(row, 31))}}
}

// decodeHash reads all fields of a record's hash, as name, value, name, value ... No field of a record means that there
// is none: found is false. Without a blob it is read where none was asked for.
func decodeHash(id ecs.EntityID, reply any, blob bool) (rec zone.Record, found bool, err error) {
	flat, err := flatFields(reply, false)
	if err != nil {
		return rec, false, malformed("record %d: %v", id, err)
	}
	fields := recordFields
	if !blob {
		fields = fields[:len(fields)-1]
	}
	values := make([]any, len(fields))
	var contents contentFields
	for i := 0; i < len(flat); i += 2 {
		name, value := flat[i].(string), flat[i+1].(string)
		if n := fieldNumber(name, fields); n >= 0 {
			values[n] = value
			continue
		}
		contents.take(name, value)
	}
	rec, found, err = decodeRecord(id, values)
	if err != nil || !found || values[0] == formatWithoutContents {
		return rec, found, err
	}
	if rec.Contents, err = contents.whole(); err != nil {
		return zone.Record{}, false, malformed("record %d: %v", id, err)
	}
	return rec, true, nil
}

// fieldNumber is the place of a name among some, or -1.
func fieldNumber(name string, names []string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}

// flatFields checks that a reply is the fields of a hash and their values, in text.
func flatFields(reply any, ground bool) ([]any, error) {
	flat, ok := reply.([]any)
	if !ok || len(flat)%2 != 0 || len(flat) > 2*maxContentFields(ground) {
		return nil, malformed("hash of type %T with %d values", reply, len(flat))
	}
	for i, v := range flat {
		if _, ok := v.(string); !ok {
			return nil, malformed("value %d of a hash is of type %T", i, v)
		}
	}
	return flat, nil
}

// decodeGround reads all fields of a ground's hash. None means that nothing ever lay there.
func decodeGround(region torus.RegionPos, reply any) (zone.Contents, error) {
	flat, err := flatFields(reply, true)
	if err != nil {
		return zone.Contents{}, malformed("ground %s: %v", region, err)
	}
	if len(flat) == 0 {
		return zone.Contents{}, nil
	}
	format, contents := "", contentFields{ground: true}
	for i := 0; i < len(flat); i += 2 {
		name, value := flat[i].(string), flat[i+1].(string)
		if name == "format" {
			format = value
		}
		contents.take(name, value)
	}
	if format != recordFormat {
		return zone.Contents{}, malformed("ground %s has format %.16q", region, format)
	}
	c, err := contents.whole()
	if err != nil {
		return zone.Contents{}, malformed("ground %s: %v", region, err)
	}
	return c, nil
}
