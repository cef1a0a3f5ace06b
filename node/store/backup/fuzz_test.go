package backup

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

// seeds are small files, as lines.
var seeds = []string{
	`{"world":{"format":"spatialcells-world","version":1,"storeID":"a","grid":{"columns":4,"rows":4,"regionEdgeChunks":250}}}` + "\n" +
		`{"key":"{e:1}","hash":["format","2","recoveries","0","transfers","0","column","1","row","2","account","0","resting","0","blob",{"base64":"/w=="},"i:3","1 2"]}` + "\n" +
		`{"key":"{r:1,2}:ground","hash":["format","2","i:5","7 2 92 5 6 0","c:5,6","3"]}` + "\n" +
		`{"key":"{a:8}","hash":["master","1","epoch","3","login","2"]}` + "\n" +
		`{"key":"{r:1,2}:fence","string":"4"}` + "\n" +
		`{"key":"{e:2}"}` + "\n" + `{"key":"{e:3}","hash":["void","1"]}` + "\n" +
		`{"end":{"lines":7,"records":3,"grounds":1,"accounts":1,"fences":1,"tokens":0,"sha256":""}}` + "\n",
	`{"world":{"format":"spatialcells-world","version":1}}` + "\n",
}

// FuzzLines: whatever a file has, reading it ends, and what it brings is what a writer takes and a reader gets back.
func FuzzLines(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
		for line := range strings.Lines(s) {
			f.Add([]byte(line))
		}
	}
	header, _, _ := strings.Cut(seeds[0], "\n")
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, before := range []string{"", header + "\n"} {
			if r, err := newReader(io.MultiReader(strings.NewReader(before), bytes.NewReader(b))); err == nil {
				readAll(t, r)
			}
		}
	})
}

// FuzzFile is the same with what is around the lines.
func FuzzFile(f *testing.F) {
	for _, s := range seeds {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		f.Add(b.Bytes())
	}
	f.Add([]byte(strings.Repeat("\x1f\x8b\x08", 9)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		readAll(t, r)
	})
}

// readAll reads all that comes, and writes it again.
func readAll(t *testing.T, r *Reader) {
	var entries []Entry
	var file bytes.Buffer
	w, err := NewWriter(&file, r.Header)
	if err != nil {
		t.Fatalf("header %+v was read and is not written: %v", r.Header, err)
	}
	for {
		e, err := r.Next()
		if err != nil {
			break
		}
		if err := w.Put(e); err != nil {
			t.Fatalf("%+v was read and is not written: %v", e, err)
		}
		entries = append(entries, e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range entries {
		got, err := again.Next()
		if err != nil || !equal(got, want) {
			t.Fatalf("%+v became %+v, %v", want, got, err)
		}
	}
	if _, err := again.Next(); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("it does not end: %v", err)
	}
}

func equal(a, b Entry) bool {
	if a.Key != b.Key || a.Expires != b.Expires || len(a.Hash) != len(b.Hash) || (a.String == nil) != (b.String == nil) {
		return false
	}
	for i := range a.Hash {
		if a.Hash[i] != b.Hash[i] {
			return false
		}
	}
	return a.String == nil || *a.String == *b.String
}
