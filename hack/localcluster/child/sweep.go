package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxRecord bounds the size of a record that Sweep reads, in bytes.
const maxRecord = 4 << 10

// Identity names one life of a process: a pid alone may be somebody else's by now.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/<pid>/stat
	Label string `json:"label"`
}

// Self returns the identity of this process.
func Self(label string) Identity { return identify(os.Getpid(), label) }

func identify(pid int, label string) Identity {
	start, _ := startTicks(pid)
	return Identity{PID: pid, Start: start, Label: label}
}

// Alive tells whether this very process, not a later one with its pid, still runs (a zombie does not).
func (i Identity) Alive() bool {
	start, err := startTicks(i.PID)
	return err == nil && i.PID > 0 && start == i.Start
}

// Signal sends sig if the process is still the one recorded.
func (i Identity) Signal(sig syscall.Signal) bool {
	return i.Alive() && syscall.Kill(i.PID, sig) == nil
}

func recordsDir(dir string) string { return filepath.Join(dir, "run") }

func (i Identity) file(dir string) string {
	return filepath.Join(recordsDir(dir), strconv.Itoa(i.PID)+".json")
}

func (i Identity) save(dir string) error {
	raw, err := json.Marshal(i)
	if err == nil {
		err = os.WriteFile(i.file(dir), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("recording %s: %w", i.Label, err)
	}
	return nil
}

func (i Identity) remove(dir string) { _ = os.Remove(i.file(dir)) }

// Recorded lists the children on record below dir that still run.
func Recorded(dir string) []Identity {
	files, _ := filepath.Glob(filepath.Join(recordsDir(dir), "*.json"))
	var live []Identity
	for _, f := range files {
		id, err := readRecord(f)
		if err == nil && id.Alive() {
			live = append(live, id)
		}
	}
	return live
}

func readRecord(file string) (Identity, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Identity{}, err
	}
	return parseRecord(raw)
}

func parseRecord(raw []byte) (Identity, error) {
	var id Identity
	if len(raw) > maxRecord {
		return id, errors.New("record too long")
	}
	if err := json.Unmarshal(raw, &id); err != nil {
		return id, err
	}
	if id.PID <= 1 {
		return id, fmt.Errorf("pid %d cannot be a child", id.PID)
	}
	return id, nil
}

// Sweep kills every process that a Keeper of dir left behind, by record and by mark, and waits until they are gone. It
// returns how many it killed. Only the holder of the folder's lock may call it, and not while a Keeper is open.
func Sweep(ctx context.Context, dir string) (int, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return 0, fmt.Errorf("resolving %s: %w", dir, err)
	}
	killed := map[int]bool{}
	for {
		left := leftovers(abs)
		if len(left) == 0 {
			break
		}
		for _, id := range left {
			if id.Signal(syscall.SIGKILL) {
				killed[id.PID] = true
			}
		}
		select {
		case <-ctx.Done():
			return len(killed), fmt.Errorf("waiting for process %d (%s) to end: %w", left[0].PID, left[0].Label, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	files, _ := filepath.Glob(filepath.Join(recordsDir(abs), "*.json"))
	for _, f := range files {
		_ = os.Remove(f)
	}
	return len(killed), nil
}

// leftovers lists live processes on record or marked with the folder, without this one.
func leftovers(abs string) []Identity {
	found := map[int]Identity{}
	for _, id := range Recorded(abs) {
		found[id.PID] = id
	}
	for _, pid := range marked(abs) {
		if id := identify(pid, "marked"); id.Alive() {
			found[pid] = id
		}
	}
	delete(found, os.Getpid())
	list := make([]Identity, 0, len(found))
	for _, id := range found {
		list = append(list, id)
	}
	return list
}

// marked lists the processes whose environment carries the folder's mark and that this user may look into.
func marked(abs string) []int {
	want := []byte(markerVar + "=" + abs)
	dirs, _ := os.ReadDir("/proc")
	var pids []int
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err != nil {
			continue
		}
		for kv := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.Equal(kv, want) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// startTicks reads when a process started; an error means that it is gone or a zombie.
func startTicks(pid int) (uint64, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	return parseStat(string(raw))
}

// parseStat finds field 22 of a stat line. The second field, the command's name, may hold blanks and parentheses.
func parseStat(stat string) (uint64, error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errors.New("not a stat line")
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 20 {
		return 0, errors.New("stat line too short")
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, errors.New("process has ended")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
