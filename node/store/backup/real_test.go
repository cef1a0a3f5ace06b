package backup

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spatialcells/spatialcells/node/store/audit"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/store/storetest"
)

// Each test here is what README.md says under Backups.

const rewritten, unscheduled, saved = "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "rdb_bgsave_in_progress:0"

// found asserts that a store is as it was, and sound.
func found(t *testing.T, s *storetest.Server, want map[string]string) {
	t.Helper()
	if got := dump(t, s.Addr); !maps.Equal(got, want) {
		t.Errorf("%d keys, there were %d; {e:1} is %s", len(got), len(want), got["{e:1}"])
	}
	if r, err := audit.Run(t.Context(), clientOf(t, s.Addr), audit.Options{}); err != nil || r.Found != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// spoil makes an item of nothing.
func spoil(s *storetest.Server) { s.Run("HSET", "{e:1}", "i:77", "1 1") }

// replace puts other files in the place of a server's, which has ended.
func replace(t *testing.T, dir, with string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(with)); err != nil {
		t.Fatal(err)
	}
}

func TestAWipedServerIsRestoredFromAFile(t *testing.T) {
	s := storetest.NewServer(t)
	populate(t, s.Addr, 1000)
	keys := len(dump(t, s.Addr))
	file := exported(t, s.Addr)
	s.Run("FLUSHALL")
	if r, err := Import(t.Context(), to(s.Addr), file, audit.Options{}); err != nil || r.Found != 0 || r.Records != 1002 {
		t.Fatalf("%+v, %v", r, err)
	}
	restored := dump(t, s.Addr)
	if len(restored) != keys {
		t.Errorf("%d keys, there were %d", len(restored), keys)
	}
	s.Kill()
	s.Start()
	found(t, s, restored)
}

// A server before 7.2 cannot be waited for, and need not be if it syncs before it replies.
func TestAnImportWarnsOnlyOfAServerThatMayLoseIt(t *testing.T) {
	from := storetest.NewServer(t)
	populate(t, from.Addr, 10)
	file := exported(t, from.Addr)
	var old []string // settings that make a server as one before 7.2
	if r, err := connect.Inspect(t.Context(), to(from.Addr)); err != nil {
		t.Fatal(err)
	} else if r.WaitAOF {
		old = []string{"--rename-command", "WAITAOF", ""}
	}
	for name, tc := range map[string]struct {
		settings []string
		warns    string
	}{
		"it syncs before it replies":               {nil, ""},
		"the same, and cannot be waited for":       {old, ""},
		"it syncs later and cannot be waited for":  {slices.Concat(old, []string{"--appendfsync", "everysec"}), `appendfsync is \"everysec\"`},
		"it does not tell and cannot be asked for": {slices.Concat(old, []string{"--rename-command", "CONFIG", ""}), "does not say how"},
		"it has no file":                           {[]string{"--appendonly", "no"}, "appendonly is off"},
	} {
		var log bytes.Buffer
		into := storetest.NewServer(t, tc.settings...)
		if _, err := Import(t.Context(), to(into.Addr), file, audit.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if warned := strings.Contains(log.String(), "level=WARN"); warned != (tc.warns != "") || !strings.Contains(log.String(), tc.warns) {
			t.Errorf("%s: want a warning with %q: %s", name, tc.warns, log.String())
		}
	}
}

func TestTheServersDirectoryIsABackup(t *testing.T) {
	s := storetest.NewServer(t)
	populate(t, s.Addr, 500)
	s.Run("CONFIG", "SET", "auto-aof-rewrite-percentage", "0") // nothing goes away while it is copied
	s.Run("BGREWRITEAOF")
	s.AwaitPersistence(rewritten, unscheduled)
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	s.Run("CONFIG", "SET", "auto-aof-rewrite-percentage", "100")
	want := dump(t, s.Addr)
	spoil(s)
	s.Kill()
	replace(t, s.Dir, kept)
	s.Start()
	found(t, s, want)
}

func TestASnapshotIsABackup(t *testing.T) {
	s := storetest.NewServer(t)
	populate(t, s.Addr, 500)
	want := dump(t, s.Addr)
	s.Run("BGSAVE")
	s.AwaitPersistence(saved, "rdb_last_bgsave_status:ok")
	kept := t.TempDir()
	b, err := os.ReadFile(filepath.Join(s.Dir, "dump.rdb"))
	if err == nil {
		err = os.WriteFile(filepath.Join(kept, "dump.rdb"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	spoil(s)
	s.Kill()
	replace(t, s.Dir, kept)
	s.Start("--appendonly", "no") // with yes it would begin with an empty append-only file
	s.Run("CONFIG", "SET", "appendonly", "yes")
	s.AwaitPersistence(rewritten, unscheduled, "aof_last_bgrewrite_status:ok", "aof_enabled:1")
	s.Kill()
	s.Start()
	found(t, s, want)
}

func TestTheAppendOnlyFileIsCutAtAnInstant(t *testing.T) {
	s := storetest.NewServer(t, "--aof-timestamp-enabled", "yes")
	check := s.Tool("check-aof")
	populate(t, s.Addr, 500)
	want := dump(t, s.Addr)
	at := time.Now().Unix() + 1
	time.Sleep(time.Until(time.Unix(at+1, 0).Add(100 * time.Millisecond)))
	spoil(s)
	s.Kill()
	manifest := filepath.Join(s.Dir, "appendonlydir", "appendonly.aof.manifest")
	out, err := exec.CommandContext(t.Context(), check, "--truncate-to-timestamp", strconv.FormatInt(at, 10), manifest).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Start()
	found(t, s, want)
}
