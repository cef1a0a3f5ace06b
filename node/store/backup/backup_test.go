package backup

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/audit"
	"github.com/spatialcells/spatialcells/node/store/audit/audittest"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var token = "{t:" + strings.Repeat("ab", 32) + "}"

func to(addr string) connect.Config { return connect.Config{URL: "redis://" + addr} }

func clientOf(t *testing.T, addr string) redis.UniversalClient {
	t.Helper()
	c, err := audit.Client(to(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// populate makes a small world in which everything is, and some entities besides.
func populate(t *testing.T, addr string, entities int) {
	t.Helper()
	ctx, pipe := t.Context(), clientOf(t, addr).Pipeline()
	pipe.HSet(ctx, "{e:1}", "format", "2", "recoveries", "4", "transfers", "3", "column", "1", "row", "2", "account", "8", "resting", "0",
		"blob", "\xff\x00 blob", "version", "7", "writer", "W", "number", "3", "moves", "9", "write", "5", "made", "5", "ended", "1",
		"i:1", "7 1", "o:102", "2 7 1 r1,2 90 5 6 0", "o:103", "3 7 1 r1,2 91 5 6 0", "counts", "1 2 0 0")
	pipe.HSet(ctx, "{e:2}", "format", "1", "recoveries", "0", "transfers", "0", "column", "1", "row", "2", "account", "0", "resting", "1", "blob", "", "version", "1")
	pipe.HSet(ctx, "{e:3}", "void", "1")
	pipe.HSet(ctx, "{r:1,2}:ground", "format", "2", "moves", "3", "i:3", "7 1 91 5 6 0", "i:5", "7 2 92 5 6 0", "n:103", "e1 0", "c:5,6", "3")
	pipe.HSet(ctx, "{r:1,2}:index", "1", "4 3", "2", "0 0", "99", "0 0")
	pipe.HSet(ctx, "{a:8}", "master", "1", "since", "5", "epoch", "4", "login", "3", "secret", "s\xfe", "gateway", "g", "claim3", "ab 3 3 0 ")
	pipe.Set(ctx, "{r:1,2}:fence", "5", 0)
	pipe.Set(ctx, token, "1", time.Hour)
	pipe.Set(ctx, "{sync}", "1", 0)
	pipe.Set(ctx, connect.Key, "default/genesis/1", 0)
	for id := range entities {
		pipe.HSet(ctx, fmt.Sprintf("{e:%d}", 1000+id), "format", "2", "recoveries", "0", "transfers", "0", "column", "3", "row", "3",
			"account", "0", "resting", "0", "blob", strings.Repeat("b", 3000), "version", "1", "moves", "0", "made", "1", fmt.Sprintf("i:%d", 1000+id), "1 1")
		pipe.HSet(ctx, "{r:3,3}:index", 1000+id, "0 0")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
}

// dump is all that a store has.
func dump(t *testing.T, addr string) map[string]string {
	t.Helper()
	ctx, c, all := t.Context(), clientOf(t, addr), map[string]string{}
	err := audit.EachKey(ctx, c, func(names []string) error {
		for _, name := range names {
			if v, err := c.Get(ctx, name).Result(); err == nil {
				all[name] = v
				continue
			}
			fields := c.HGetAll(ctx, name).Val()
			for _, f := range slices.Sorted(maps.Keys(fields)) {
				all[name] += fmt.Sprintf("%s=%q ", f, fields[f])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func exported(t *testing.T, addr string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "world.gz")
	r, err := Export(t.Context(), to(addr), file, Header{Taken: "now", Grid: &Grid{4, 4, 250}}, audit.Options{})
	if err != nil || r.Found != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	return file
}

func TestAWorldThatIsImportedIsTheOneThatWasExported(t *testing.T) {
	from, into := miniredis.RunT(t), miniredis.RunT(t)
	populate(t, from.Addr(), 700)
	file := exported(t, from.Addr())
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the file: %v, %v", info, err)
	}
	if _, err := Export(t.Context(), to(from.Addr()), file, Header{}, audit.Options{}); err == nil {
		t.Error("it is written over")
	}
	r, err := Import(t.Context(), to(into.Addr()), file, audit.Options{})
	if err != nil || r.Found != 0 || r.Records != 702 || r.Items != 704 || r.Fences != 1 || r.Tokens != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	want, got := dump(t, from.Addr()), dump(t, into.Addr())
	want["{r:1,2}:fence"] = "6"
	want["{e:1}"] = strings.Replace(want["{e:1}"], `recoveries="4"`, `recoveries="5"`, 1)
	want["{r:1,2}:index"] = `1="5 3" 2="1 0" `
	for key, fields := range want {
		if key == "{e:2}" || strings.HasPrefix(key, "{e:1") && len(key) > len("{e:1}") {
			want[key] = strings.Replace(fields, `recoveries="0"`, `recoveries="1"`, 1)
		}
	}
	want["{r:3,3}:index"] = strings.ReplaceAll(want["{r:3,3}:index"], `"0 0"`, `"1 0"`)
	if !maps.Equal(want, got) {
		for key := range want {
			if want[key] != got[key] {
				t.Errorf("%s is\n%.300s\nwant\n%.300s", key, got[key], want[key])
			}
		}
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
	if left := into.TTL(token); left < 50*time.Minute || left > time.Hour {
		t.Errorf("the used token is kept for %v", left)
	}
}

func TestAnImportTakesAnEmptyStoreOnly(t *testing.T) {
	from, into := miniredis.RunT(t), miniredis.RunT(t)
	populate(t, from.Addr(), 0)
	file := exported(t, from.Addr())
	into.HSet("{a:1}", "epoch", "1")
	if _, err := Import(t.Context(), to(into.Addr()), file, audit.Options{}); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "{a:1}") {
		t.Errorf("got %v", err)
	}
	if len(into.Keys()) != 1 {
		t.Errorf("it wrote: %v", into.Keys())
	}
	into.FlushAll()
	into.Set(connect.Key, "default/eden/2")
	if _, err := Import(t.Context(), to(into.Addr()), file, audit.Options{}); err != nil {
		t.Errorf("a store with an id alone: %v", err)
	}
	if id, _ := into.Get(connect.Key); id != "default/eden/2" {
		t.Errorf("the id became %q", id)
	}
	if _, err := Import(t.Context(), to(into.Addr()), file, audit.Options{}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a second time: %v", err)
	}
}

func TestAnImportThatWasBrokenOffGoesOn(t *testing.T) {
	from, into := miniredis.RunT(t), miniredis.RunT(t)
	populate(t, from.Addr(), 700)
	file := exported(t, from.Addr())
	whole := miniredis.RunT(t)
	if _, err := Import(t.Context(), to(whole.Addr()), file, audit.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{1, 3, 500, 900, 1300} {
		into.FlushAll()
		left := at
		into.Server().SetPreHook(func(p *server.Peer, command string, _ ...string) bool {
			if c := strings.ToUpper(command); c == "HSET" || c == "SET" {
				left--
			}
			if left > 0 {
				return false
			}
			p.WriteError("OOM enough")
			return true
		})
		if _, err := Import(t.Context(), to(into.Addr()), file, audit.Options{}); err == nil {
			t.Errorf("after %d writes: it is through", at)
		}
		into.Server().SetPreHook(nil)
		if !into.Exists(marker) && at > 1 {
			t.Errorf("after %d writes: nothing says that the import is not through", at)
		}
		if _, err := Import(t.Context(), to(into.Addr()), file, audit.Options{}); err != nil {
			t.Errorf("after %d writes: %v", at, err)
		}
		if !maps.Equal(dump(t, into.Addr()), dump(t, whole.Addr())) {
			t.Errorf("after %d writes: another world", at)
		}
	}
	into.FlushAll()
	into.Set(marker, "another")
	if _, err := Import(t.Context(), to(into.Addr()), file, audit.Options{}); !errors.Is(err, ErrOtherImport) {
		t.Errorf("over another import: %v", err)
	}
}

func TestAFileWithFaultsIsKeptAndNotTaken(t *testing.T) {
	from, into := miniredis.RunT(t), miniredis.RunT(t)
	populate(t, from.Addr(), 0)
	from.HSet("{e:2}", "format", "2", "i:5", "7 1")
	file := filepath.Join(t.TempDir(), "world.gz")
	r, err := Export(t.Context(), to(from.Addr()), file, Header{}, audit.Options{})
	if !errors.Is(err, ErrFaults) || r.Found != 1 || r.Faults[0].Kind != audit.Twice {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err = Import(t.Context(), to(into.Addr()), file, audit.Options{})
	if !errors.Is(err, ErrFaults) || r.Found != 1 || len(into.Keys()) != 0 {
		t.Errorf("%+v, %v, wrote %v", r, err, into.Keys())
	}
}

func TestADirectoryThatDoesNotFitTheRecordsIsAFault(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*miniredis.Miniredis)
		text   string
	}{
		"another master": {func(m *miniredis.Miniredis) { m.HSet("{a:8}", "master", "2") }, `names "2"`},
		"no master":      {func(m *miniredis.Miniredis) { m.HDel("{a:8}", "master") }, "names none"},
		"no account":     {func(m *miniredis.Miniredis) { m.Del("{a:8}") }, "names none"},
	} {
		from := miniredis.RunT(t)
		populate(t, from.Addr(), 0)
		c.damage(from)
		r, err := Export(t.Context(), to(from.Addr()), filepath.Join(t.TempDir(), "world.gz"), Header{}, audit.Options{})
		if !errors.Is(err, ErrFaults) || r.Found != 1 || r.Faults[0].Kind != audit.Account || !strings.Contains(r.Faults[0].What, c.text) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestAReaderRefusesWhatNoStoreHas: the files are whole, and their checksums right.
func TestAReaderRefusesWhatNoStoreHas(t *testing.T) {
	header := Header{Format: Format, Version: Version}
	text := func(s string) *Text { return (*Text)(&s) }
	many := make([]Text, 200_000)
	for i := range many {
		many[i] = Text(fmt.Sprint(i))
	}
	record := []Text{"format", "2", "recoveries", "0", "transfers", "0", "column", "1", "row", "2", "account", "0", "resting", "0", "blob", "b"}
	for name, l := range map[string]line{
		"a newer version":              {World: &Header{Format: Format, Version: 2}},
		"another format":               {World: &Header{Format: "x", Version: 1}},
		"a long id":                    {World: &Header{Format: Format, Version: 1, StoreID: strings.Repeat("x", 300)}},
		"an impossible grid":           {World: &Header{Format: Format, Version: 1, Grid: &Grid{1000, 1, 250}}},
		"a name without value":         {Entry: Entry{Key: "{e:1}", Hash: append(slices.Clone(record), "i:1")}},
		"a record of too many fields":  {Entry: Entry{Key: "{e:1}", Hash: slices.Concat(record, many)}},
		"a large blob":                 {Entry: Entry{Key: "{e:1}", Hash: append(slices.Clone(record[:15]), Text(strings.Repeat("b", 1<<20+1)))}},
		"a record of another format":   {Entry: Entry{Key: "{e:1}", Hash: append([]Text{"format", "3"}, record[2:]...)}},
		"no record":                    {Entry: Entry{Key: "{e:1}", Hash: []Text{"a", "b"}}},
		"a record of no hash":          {Entry: Entry{Key: "{e:1}", String: text("x")}},
		"a record that expires":        {Entry: Entry{Key: "{e:1}", Hash: record, Expires: 5}},
		"an account of no hash":        {Entry: Entry{Key: "{a:1}", String: text("x")}},
		"an account of nonsense":       {Entry: Entry{Key: "{a:1}", Hash: []Text{"master", "x"}}},
		"an account without a value":   {Entry: Entry{Key: "{a:1}", Hash: []Text{"secret"}}},
		"an account of a large value":  {Entry: Entry{Key: "{a:1}", Hash: []Text{"secret", Text(strings.Repeat("x", 1<<12))}}},
		"an account of too many":       {Entry: Entry{Key: "{a:1}", Hash: many[:1000]}},
		"an account that is not there": {Entry: Entry{Key: "{a:1}"}},
		"a fence of nonsense":          {Entry: Entry{Key: "{r:1,2}:fence", String: text("01")}},
		"a fence of a hash":            {Entry: Entry{Key: "{r:1,2}:fence", Hash: []Text{"a", "b"}}},
		"a fence of both":              {Entry: Entry{Key: "{r:1,2}:fence", Hash: []Text{"a", "b"}, String: text("1")}},
		"a token for ever":             {Entry: Entry{Key: token, String: text("1")}},
		"a token of nonsense":          {Entry: Entry{Key: token, String: text("x"), Expires: 5}},
		"a token of a hash":            {Entry: Entry{Key: token, Hash: []Text{"a", "b"}, Expires: 5}},
		"a token of the far past":      {Entry: Entry{Key: token, String: text("1"), Expires: -5}},
		"an index":                     {Entry: Entry{Key: "{r:1,2}:index", Hash: []Text{"1", "0 0"}}},
		"a key of no kind":             {Entry: Entry{Key: "x", String: text("1")}},
	} {
		var b bytes.Buffer
		f := &Writer{gzip: gzip.NewWriter(&b), sum: sha256.New()}
		if l.World == nil {
			if err := f.line(line{World: &header}); err != nil {
				t.Fatal(err)
			}
			f.counts.add(store.ParseKey(l.Key).Kind)
		}
		if err := errors.Join(f.line(l), f.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(&b)
		if err == nil {
			_, err = r.Next()
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s is taken: %v", name, err)
		}
	}
}

func TestAStoreThatCanNotBeReadGivesNoFile(t *testing.T) {
	for name, damage := range map[string]func(*miniredis.Miniredis){
		"a record of an unknown format": func(m *miniredis.Miniredis) { m.HSet("{e:2}", "format", "9") },
		"a record of another type":      func(m *miniredis.Miniredis) { _ = m.Set("{e:9}", "x") },
		"a given up record of nonsense": func(m *miniredis.Miniredis) { m.HSet("{e:3}", "void", "x") },
		"a fence of nonsense":           func(m *miniredis.Miniredis) { _ = m.Set("{r:1,2}:fence", "x") },
		"an account of another type":    func(m *miniredis.Miniredis) { _ = m.Set("{a:9}", "x") },
		"a token for ever":              func(m *miniredis.Miniredis) { _ = m.Set(token, "1") },
	} {
		t.Run(name, func(t *testing.T) {
			from := miniredis.RunT(t)
			populate(t, from.Addr(), 0)
			damage(from)
			file := filepath.Join(t.TempDir(), "world.gz")
			if _, err := Export(t.Context(), to(from.Addr()), file, Header{}, audit.Options{}); err == nil || errors.Is(err, ErrFaults) {
				t.Errorf("got %v", err)
			}
			if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 0 {
				t.Errorf("there is a file: %v", left)
			}
		})
	}
}

// TestTheFileIsAPointInTime: an item and a blob move on while the store is read; the file has both as they were last.
func TestTheFileIsAPointInTime(t *testing.T) {
	from, into := miniredis.RunT(t), miniredis.RunT(t)
	populate(t, from.Addr(), 0)
	scans := 0
	from.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if strings.ToUpper(command) == "SCAN" {
			if scans++; scans == 2 {
				from.HDel("{e:1}", "i:1")
				from.HSet("{e:1}", "moves", "10", "write", "50", "counts", "0 2 0 0")
				from.HSet("{r:1,2}:ground", "moves", "4", "write", "51", "i:1", "7 1 1 1 1 1")
				from.HSet("{e:2}", "version", "2", "blob", "new")
			}
		}
		return false
	})
	file := exported(t, from.Addr())
	r, err := Import(t.Context(), to(into.Addr()), file, audit.Options{})
	if err != nil || r.Items != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	if into.HGet("{e:1}", "i:1") != "" || into.HGet("{r:1,2}:ground", "i:1") == "" || into.HGet("{e:2}", "blob") != "new" {
		t.Errorf("got %v", dump(t, into.Addr()))
	}
}

// TestEachFileOfAWorldThatIsWrittenToIsSound: several are made while nodes move items all the time.
func TestEachFileOfAWorldThatIsWrittenToIsSound(t *testing.T) {
	s := storetest.NewServer(t)
	populate(t, s.Addr, 1000)
	var writes atomic.Uint64
	stop := audittest.Run(t, s.Addr, &writes)
	defer stop()
	for range 5 {
		before := writes.Load()
		file := exported(t, s.Addr)
		if writes.Load() == before {
			t.Error("nothing was written meanwhile")
		}
		into := miniredis.RunT(t)
		if r, err := Import(t.Context(), to(into.Addr()), file, audit.Options{}); err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// lines are those of a file, which may then be damaged.
func lines(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(string(b), "\n")
}

func TestADamagedFileIsNotTaken(t *testing.T) {
	from, into := miniredis.RunT(t), miniredis.RunT(t)
	populate(t, from.Addr(), 5)
	file := exported(t, from.Addr())
	good := lines(t, file)
	good = good[:len(good)-1] // after the last end of line is nothing
	packed := func(lines []string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, strings.Join(lines, ""))
		_ = z.Close()
		return b.Bytes()
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(n int, from, to string) []byte {
		l := slices.Clone(good)
		if l[n] = strings.Replace(l[n], from, to, 1); l[n] == good[n] {
			t.Fatalf("%q is not in %q", from, l[n])
		}
		return packed(l)
	}
	last := len(good) - 1
	for name, b := range map[string][]byte{
		"nothing":              nil,
		"no gzip":              []byte("hello"),
		"cut":                  whole[:len(whole)-9],
		"garbage after it":     append(slices.Clone(whole), 'x'),
		"no end":               packed(good[:last]),
		"a line missing":       packed(slices.Concat(good[:2], good[3:])),
		"a line twice":         packed(slices.Concat(good[:2], good[1:])),
		"a line after the end": packed(append(slices.Clone(good), good[1])),
		"a half line after":    packed(append(slices.Clone(good), "{")),
		"no header":            packed(good[1:]),
		"two headers":          packed(slices.Concat(good[:1], good)),
		"a newer version":      edit(0, `"version":1`, `"version":2`),
		"another format":       edit(0, Format, "other"),
		"an impossible grid":   edit(0, `"columns":4`, `"columns":4000`),
		"another checksum":     edit(last, `"sha256":"`, `"sha256":"0`),
		"another count":        edit(last, `"records":`, `"records":1`),
		"a value changed":      edit(1, `"version"`, `"versiom"`),
		"an unknown key":       edit(1, `{"key":"{`, `{"key":"{x`),
		"an unknown field":     edit(1, `{"key"`, `{"x":1,"key"`),
		"a line too long":      edit(1, `{"key"`, strings.Repeat(" ", MaxLine)+`{"key"`),
	} {
		t.Run(name, func(t *testing.T) {
			bad := filepath.Join(t.TempDir(), "bad.gz")
			if err := os.WriteFile(bad, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if r, err := Import(t.Context(), to(into.Addr()), bad, audit.Options{}); err == nil || len(into.Keys()) != 0 {
				t.Errorf("taken: %+v, %v", r, err)
			}
		})
	}
	if err := os.WriteFile(file, packed(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), to(into.Addr()), file, audit.Options{}); err != nil {
		t.Errorf("the one that is not damaged: %v", err)
	}
}
