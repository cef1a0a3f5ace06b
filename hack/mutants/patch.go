package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// errStep is what is wrong with a mutant whose code has changed: it must follow.
var errStep = errors.New("out of step with the code")

// place is where a hunk goes, in bytes of the source.
type place struct {
	from, to int
	hunk     hunk
}

// apply returns the source with all hunks in place. The old lines of each must be there exactly once, in the source as it
// is, and no two hunks may touch the same line.
func apply(source string, hunks []hunk) (string, error) {
	places := make([]place, 0, len(hunks))
	for _, h := range hunks {
		at, err := find(source, h.Old)
		if err != nil {
			return "", fmt.Errorf("hunk of line %d: %w", h.Line, err)
		}
		places = append(places, place{at, at + len(h.Old), h})
	}
	slices.SortFunc(places, func(a, b place) int { return a.from - b.from })
	var out strings.Builder
	done := 0
	for _, p := range places {
		if p.from < done {
			return "", fmt.Errorf("hunk of line %d: it touches lines of another hunk", p.hunk.Line)
		}
		out.WriteString(source[done:p.from] + p.hunk.New)
		done = p.to
	}
	out.WriteString(source[done:])
	return out.String(), nil
}

// find returns where whole lines begin that are in the source exactly once.
func find(source, lines string) (int, error) {
	at, times := -1, 0
	for from := 0; from < len(source); {
		if strings.HasPrefix(source[from:], lines) {
			at = from
			times++
		}
		next := strings.IndexByte(source[from:], '\n')
		if next < 0 {
			break
		}
		from += next + 1
	}
	switch times {
	case 1:
		return at, nil
	case 0:
		return 0, fmt.Errorf("%w: its old lines are not there, first of them %q", errStep, firstLine(lines))
	}
	return 0, fmt.Errorf("%w: its old lines are there %d times, first of them %q", errStep, times, firstLine(lines))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

// patched returns the sources that a mutant changes, as it leaves them, by path from the root.
func (m *mutant) patched(root string) (map[string]string, error) {
	all := map[string]string{}
	var failed []error
	for _, f := range m.Files {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.Path)))
		if err == nil {
			all[f.Path], err = apply(string(source), f.Hunks)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("mutant %s, file %s: %w", m.Name, f.Path, err))
		}
	}
	return all, errors.Join(failed...)
}

// overlay writes the changed sources into a folder and returns the file that `go build -overlay` reads.
func (m *mutant) overlay(root, dir string) (string, error) {
	sources, err := m.patched(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for path, source := range sources {
		copied := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(copied, []byte(source), 0o644); err != nil {
			return "", fmt.Errorf("writing a changed source: %w", err)
		}
		replace[filepath.Join(root, filepath.FromSlash(path))] = copied
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	return path, nil
}
