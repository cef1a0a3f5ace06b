package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one deliberate defect.
type mutant struct {
	Name string
	// Defect says in one line what is wrong.
	Defect string
	// Worlds is the situation that the worlds are made around that it is looked for in; "" are all kinds.
	Worlds string
	// By are the checks that may find it, as a run names them: "invariant 1", "liveness", "assertion".
	By    []string
	Files []patch
}

// patch is what a mutant changes in one file.
type patch struct {
	Path  string // from the root of the repository, with slashes
	Hunks []hunk
}

// hunk replaces whole lines. Both texts end with a line feed; New may be empty.
type hunk struct {
	Line     int // of the mutant's file, for errors
	Old, New string
}

// Lines that shape a mutant's file.
const (
	invariantPrefix           = "invariant:"
	worldsPrefix              = "worlds:"
	hunkOld, hunkNew, hunkEnd = "<<<<", "====", ">>>>"
)

// checks are the words of an invariant line and the check that each stands for. The client's model is the oracle of
// invariant 4.
var checks = map[string]string{
	"1": "invariant 1", "2": "invariant 2", "3": "invariant 3", "4": "invariant 4", "5": "invariant 5", "6": "invariant 6", "7": "invariant 7",
	"model": "invariant 4", "liveness": "liveness", "assertion": "assertion",
}

// readMutants reads the mutants of a folder whose name matches, by name. All errors are returned together.
func readMutants(dir string, match *regexp.Regexp) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	var list []mutant
	var failed []error
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if match != nil && !match.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(path)
		if err == nil {
			var m mutant
			if m, err = parseMutant(name, string(text)); err == nil {
				list = append(list, m)
			}
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("mutant %s: %w", name, err))
		}
	}
	return list, errors.Join(failed...)
}

// parser goes over the lines of a mutant's file.
type parser struct {
	lines []string
	next  int
}

// parseMutant reads the text of a mutant's file. Errors name the line.
func parseMutant(name, text string) (mutant, error) {
	p := &parser{lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	m := mutant{Name: name}
	if err := p.head(&m); err != nil {
		return mutant{}, err
	}
	for p.next < len(p.lines) {
		f, err := p.file()
		if err != nil {
			return mutant{}, err
		}
		if slices.ContainsFunc(m.Files, func(o patch) bool { return o.Path == f.Path }) {
			return mutant{}, fmt.Errorf("file %s is there twice: put its hunks together", f.Path)
		}
		m.Files = append(m.Files, f)
	}
	if len(m.Files) == 0 {
		return mutant{}, errors.New("it changes no file")
	}
	return m, nil
}

// head reads the description, the lines about worlds and invariants, and what is blank up to the first file.
func (p *parser) head(m *mutant) error {
	for ; p.next < len(p.lines); p.next++ {
		line := strings.TrimSpace(p.lines[p.next])
		switch {
		case strings.HasPrefix(line, invariantPrefix):
			p.next++
			if m.Defect == "" {
				return fmt.Errorf("line %d: say in the first line what is wrong", p.next)
			}
			var err error
			if m.By, err = parseChecks(strings.TrimPrefix(line, invariantPrefix)); err != nil {
				return fmt.Errorf("line %d: %w", p.next, err)
			}
			return p.blank()
		case strings.HasPrefix(line, worldsPrefix):
			m.Worlds, _, _ = strings.Cut(strings.TrimPrefix(line, worldsPrefix), "#")
			if m.Worlds = strings.TrimSpace(m.Worlds); m.Worlds == "" {
				return fmt.Errorf("line %d: name the situation that the worlds are made around", p.next+1)
			}
		case isFile(line) || line == hunkOld:
			return fmt.Errorf("line %d: the line %q must come before the first file", p.next+1, invariantPrefix)
		case m.Defect == "":
			m.Defect = line
		}
	}
	return fmt.Errorf("it has no line %q", invariantPrefix)
}

// parseChecks reads "1, 5  # why" as the names of checks.
func parseChecks(list string) ([]string, error) {
	list, _, _ = strings.Cut(list, "#")
	var names []string
	for _, word := range strings.Split(list, ",") {
		name, known := checks[strings.TrimSpace(word)]
		if !known {
			return nil, fmt.Errorf("no check is called %q: use 1 to 7, model, liveness or assertion", strings.TrimSpace(word))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// blank skips blank lines; what follows is a file or the end.
func (p *parser) blank() error {
	for ; p.next < len(p.lines); p.next++ {
		if line := p.lines[p.next]; strings.TrimSpace(line) != "" {
			if !isFile(line) {
				return fmt.Errorf("line %d: %q is not a line of the form \"-- path --\"", p.next+1, line)
			}
			return nil
		}
	}
	return nil
}

func isFile(line string) bool {
	return len(line) > 6 && strings.HasPrefix(line, "-- ") && strings.HasSuffix(line, " --")
}

// file reads one "-- path --" line and its hunks.
func (p *parser) file() (patch, error) {
	line := p.lines[p.next]
	f := patch{Path: strings.TrimSpace(line[3 : len(line)-3])}
	if !filepath.IsLocal(f.Path) || !strings.HasSuffix(f.Path, ".go") {
		return f, fmt.Errorf("line %d: %q is not the path of a Go file from the root of the repository", p.next+1, f.Path)
	}
	p.next++
	for p.next < len(p.lines) && !isFile(p.lines[p.next]) {
		switch line := p.lines[p.next]; {
		case line == hunkOld:
			h, err := p.hunk()
			if err != nil {
				return f, err
			}
			f.Hunks = append(f.Hunks, h)
		case strings.TrimSpace(line) == "":
			p.next++
		default:
			return f, fmt.Errorf("line %d: %q is outside of a hunk", p.next+1, line)
		}
	}
	if len(f.Hunks) == 0 {
		return f, fmt.Errorf("file %s has no hunk", f.Path)
	}
	return f, nil
}

// hunk reads from "<<<<" to ">>>>".
func (p *parser) hunk() (hunk, error) {
	h := hunk{Line: p.next + 1}
	p.next++
	var err error
	if h.Old, err = p.until(hunkNew, h.Line); err != nil {
		return h, err
	}
	if h.New, err = p.until(hunkEnd, h.Line); err != nil {
		return h, err
	}
	switch {
	case strings.TrimSpace(h.Old) == "":
		return h, fmt.Errorf("line %d: the hunk replaces nothing", h.Line)
	case h.Old == h.New:
		return h, fmt.Errorf("line %d: the hunk changes nothing", h.Line)
	}
	return h, nil
}

// until joins the lines before one that says end, and goes past it.
func (p *parser) until(end string, from int) (string, error) {
	var text strings.Builder
	for ; p.next < len(p.lines); p.next++ {
		switch line := p.lines[p.next]; line {
		case end:
			p.next++
			return text.String(), nil
		case hunkOld, hunkNew, hunkEnd:
			return "", fmt.Errorf("line %d: %q where the hunk of line %d needs %q", p.next+1, line, from, end)
		default:
			text.WriteString(line + "\n")
		}
	}
	return "", fmt.Errorf("line %d: the hunk has no %q", from, end)
}
