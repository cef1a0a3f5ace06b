package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const good = `The gate stands open.
It is told here at more length.
invariant: 1, model  # who may catch it

-- node/a.go --
<<<<
	shut()
====
	open()
>>>>
<<<<
	lock()
====
>>>>

-- node/b.go --
<<<<
x := 1
y := 2
====
x := 2
>>>>
`

func TestAMutantIsReadWithItsFilesAndHunks(t *testing.T) {
	m, err := parseMutant("open", good)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "open" || m.Defect != "The gate stands open." || !slices.Equal(m.By, []string{"invariant 1", "invariant 4"}) {
		t.Errorf("head is %q, %q, %q", m.Name, m.Defect, m.By)
	}
	if len(m.Files) != 2 || m.Files[0].Path != "node/a.go" || len(m.Files[0].Hunks) != 2 || m.Files[1].Path != "node/b.go" {
		t.Fatalf("files are %+v", m.Files)
	}
	if h := m.Files[0].Hunks[0]; h != (hunk{Line: 6, Old: "\tshut()\n", New: "\topen()\n"}) {
		t.Errorf("first hunk is %+v", h)
	}
	if h := m.Files[0].Hunks[1]; h.Old != "\tlock()\n" || h.New != "" {
		t.Errorf("a hunk that takes lines out is %+v", h)
	}
	if h := m.Files[1].Hunks[0]; h.Old != "x := 1\ny := 2\n" || h.New != "x := 2\n" {
		t.Errorf("a hunk of two lines is %+v", h)
	}
}

func TestAMutantMayNameItsKindOfWorlds(t *testing.T) {
	m, err := parseMutant("open", strings.Replace(good, "invariant:", "worlds: gates  # where there is much to shut\ninvariant:", 1))
	if err != nil || m.Worlds != "gates" {
		t.Errorf("%v: worlds %q", err, m.Worlds)
	}
	if _, err := parseMutant("open", strings.Replace(good, "invariant:", "worlds: # all\ninvariant:", 1)); err == nil || !strings.Contains(err.Error(), "line 3: name the situation") {
		t.Errorf("no name: %v", err)
	}
	m, err = parseMutant("open", good)
	if err != nil || m.Worlds != "" {
		t.Errorf("%v: worlds %q where none are named", err, m.Worlds)
	}
}

func TestABadFormIsRefusedWithItsLine(t *testing.T) {
	change := func(old, replacement string) string { return strings.Replace(good, old, replacement, 1) }
	for name, c := range map[string]struct{ text, want string }{
		"nothing at all":           {"", `it has no line "invariant:"`},
		"no invariant line":        {change("invariant: 1, model  # who may catch it\n", ""), "line 4: the line \"invariant:\" must come before"},
		"no description":           {change("The gate stands open.\nIt is told here at more length.\n", ""), "line 1: say in the first line"},
		"an unknown check":         {change("model", "9"), `line 3: no check is called "9"`},
		"an empty list of checks":  {change("1, model ", ""), `line 3: no check is called ""`},
		"no file":                  {good[:strings.Index(good, "\n-- ")], "it changes no file"},
		"text before the files":    {change("\n-- node/a.go --", "\nstray\n-- node/a.go --"), `line 5: "stray"`},
		"text between hunks":       {change(">>>>\n<<<<", ">>>>\nstray\n<<<<"), `line 11: "stray" is outside of a hunk`},
		"a file without a hunk":    {good + "-- node/c.go --\n", "file node/c.go has no hunk"},
		"a file twice":             {change("node/b.go", "node/a.go"), "file node/a.go is there twice"},
		"a path out of the tree":   {change("node/a.go", "../a.go"), `"../a.go" is not the path of a Go file`},
		"a path of another kind":   {change("node/a.go", "node/a.txt"), `"node/a.txt" is not the path of a Go file`},
		"a hunk without a middle":  {change("====\n\topen()\n", ""), `line 8: ">>>>" where the hunk of line 6 needs "===="`},
		"a hunk without an end":    {change("\topen()\n>>>>", "\topen()"), `line 10: "<<<<" where the hunk of line 6 needs ">>>>"`},
		"a hunk cut off":           {strings.TrimSuffix(good, ">>>>\n"), `the hunk has no ">>>>"`},
		"a hunk of nothing":        {change("\tshut()\n", ""), "line 6: the hunk replaces nothing"},
		"a hunk without an effect": {change("open()", "shut()"), "line 6: the hunk changes nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseMutant("m", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestAllBadFilesAreNamedAtOnce(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": good, "b.txt": "no", "c.txt": "no", "README.md": "no mutant"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := readMutants(dir, nil)
	if err == nil || !strings.Contains(err.Error(), "mutant b: ") || !strings.Contains(err.Error(), "mutant c: ") {
		t.Errorf("error is %v", err)
	}
	if len(list) != 1 || list[0].Name != "a" {
		t.Errorf("the good ones are %v", list)
	}
	if _, err := readMutants(dir, regexp.MustCompile("^a$")); err != nil {
		t.Errorf("a file that was not asked for fails: %v", err)
	}
}
