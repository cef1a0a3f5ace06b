package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/spatialcells/spatialcells/node/store/audit"
	"github.com/spatialcells/spatialcells/node/store/connect"
)

// smallWorld is a store in which one entity has items 5 and 6.
func smallWorld(t *testing.T) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.RunT(t)
	m.HSet("{e:1}", "format", "2", "recoveries", "0", "transfers", "0", "column", "0", "row", "0", "account", "0", "resting", "0",
		"blob", "b", "version", "1", "made", "2", "i:5", "1 1", "i:6", "1 1")
	m.HSet("{r:0,0}:index", "1", "0 0")
	if err := m.Set(connect.Key, "default/genesis/1"); err != nil {
		t.Fatal(err)
	}
	return m
}

// tool carries out a command about a whole store, and returns what it prints, how the process would end, and the error.
func tool(t *testing.T, args ...string) (string, int, error) {
	t.Helper()
	var out bytes.Buffer
	err := wholeStore(t.Context(), slog.New(slog.DiscardHandler), &out, args)
	if err == nil {
		return out.String(), 0, nil
	}
	return out.String(), exitCode(err), err
}

func TestTheAuditSaysByItsEndWhatItFound(t *testing.T) {
	m := smallWorld(t)
	url := "-store=redis://" + m.Addr()
	if out, code, err := tool(t, "audit", url); code != 0 || !strings.Contains(out, "records 1, grounds 0, items 2 (made 2, ended 0)") {
		t.Errorf("a sound store: %d, %v, %s", code, err, out)
	}
	m.HSet("{r:0,0}:ground", "format", "2", "i:5", "1 1 9 0 0 0")
	file := filepath.Join(t.TempDir(), "report.json")
	out, code, err := tool(t, "audit", url, "-json", file)
	if code != 1 || err == nil || !strings.Contains(out, "FAULT twice: [{r:0,0}:ground {e:1}] item 5 is in 2 places") {
		t.Errorf("an item in two places: %d, %v, %s", code, err, out)
	}
	b, _ := os.ReadFile(file)
	var r audit.Report
	if err := json.Unmarshal(b, &r); err != nil || r.Found != 1 || r.Items != 3 || r.Faults[0].Serial != 5 {
		t.Errorf("%v, %s", err, b)
	}
	m.SetError("LOADING")
	if _, code, err := tool(t, "audit", url); code != 2 {
		t.Errorf("a store that does not answer: %d, %v", code, err)
	}
}

func TestTheAuditComparesWithWhatIsExpected(t *testing.T) {
	url := "-store=redis://" + smallWorld(t).Addr()
	for text, want := range map[string]struct {
		code int
		out  string
	}{
		`[5, 6]`:                          {0, "no faults"},
		`{"present": [6], "absent": [7]}`: {0, "no faults"},
		`[5, 18446744073709551615]`:       {1, "item 18446744073709551615 was to be there"},
		`{"present": [], "absent": [5]}`:  {1, "item 5 was not to be there"},
		`"5"`:                             {2, ""},
		`[5, -1]`:                         {2, ""},
	} {
		file := filepath.Join(t.TempDir(), "expect.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code, err := tool(t, "audit", url, "-expect", file); code != want.code || !strings.Contains(out, want.out) {
			t.Errorf("%s: %d, %v, %s", text, code, err, out)
		}
	}
}

func TestAWorldIsCarriedFromStoreToStore(t *testing.T) {
	from, into := smallWorld(t), miniredis.RunT(t)
	file := filepath.Join(t.TempDir(), "world.gz")
	if out, code, err := tool(t, "export", "-store=redis://"+from.Addr(), "-out", file, "-columns=4", "-rows=4"); code != 0 || !strings.Contains(out, "items 2") {
		t.Fatalf("export: %d, %v, %s", code, err, out)
	}
	if out, code, err := tool(t, "import", "-store=redis://"+into.Addr(), "-in", file); code != 0 || !strings.Contains(out, "items 2") || !strings.Contains(out, "imported "+file+": 1 records, 0 accounts and 0 grounds, with 2 items;") {
		t.Fatalf("import: %d, %v, %s", code, err, out)
	}
	if id, _ := into.Get(connect.Key); id != "default/genesis/1" {
		t.Errorf("the id became %q", id)
	}
	if _, code, err := tool(t, "import", "-store=redis://"+into.Addr(), "-in", file); code != 2 || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second import: %d, %v", code, err)
	}
}

func TestAToolIsToldAsANodeIs(t *testing.T) {
	m := smallWorld(t)
	m.RequireAuth("secret")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZONE_STORE", "redis://"+m.Addr())
	t.Setenv("ZONE_STORE_PASSWORD_FILE", password)
	t.Setenv("ZONE_STORE_ID", "default/genesis/1")
	if out, code, err := tool(t, "audit"); code != 0 {
		t.Errorf("by the environment: %d, %v, %s", code, err, out)
	}
	for want, args := range map[string][]string{
		"audit: nobody can look at a store in the memory": {"audit", "-store=memory"},
		"audit: -store is needed":                         {"audit", "-store="},
		"audit: -store (or ZONE_STORE): store URL is not": {"audit", "-store=localhost:6379"},
		"export: -out is needed":                          {"export"},
		"import: -in is needed":                           {"import"},
		"import failed: ":                                 {"import", "-in=/nowhere"},
		"export failed: ":                                 {"export", "-out=/nowhere/x"},
		"audit: writing the report: ":                     {"audit", "-json=/nowhere/x"},
	} {
		if _, code, err := tool(t, args...); code != 2 || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %d, %v, want an error that begins with %q", args, code, err, want)
		}
	}
	for _, args := range [][]string{
		{"audit", "-store-id=default/eden/2"},
		{"audit", "-store=memory"},
		{"audit", "x"},
		{"audit", "-out=x"},
		{"audit", "-store-password-file=/nowhere"},
		{"export"},
		{"import"},
		{"import", "-in=/nowhere"},
		{"export", "-out=/nowhere/x"},
		{"audit", "-expect=/nowhere"},
		{"audit", "-json=/nowhere/x"},
		{"export", "-out=x", "-columns=9999", "-rows=1"},
	} {
		if _, code, err := tool(t, args...); code != 2 {
			t.Errorf("%v: %d, %v", args, code, err)
		}
	}
}

func TestWhoAsksForHelpHasNotFailed(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, args := range [][]string{{"-h"}, {"--help"}, {"help"}, {"audit", "-h"}, {"export", "-help"}, {"import", "-h"}, {"token", "-h"}, {"store", "-h"}} {
		if err := dispatch(t.Context(), log, args); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%v: %v", args, err)
		}
	}
	for _, args := range [][]string{{}, {"audti"}} {
		if err := dispatch(t.Context(), log, args); !errors.Is(err, errNoCommand) || exitCode(err) != 2 {
			t.Errorf("%v: %v", args, err)
		}
	}
}
