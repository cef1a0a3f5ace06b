package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = "package a\n\nfunc f() {\n\tone()\n\ttwo()\n\tone() // once more\n\tthree()\n}\n"

func TestHunksReplaceWholeLines(t *testing.T) {
	for name, c := range map[string]struct {
		hunks []hunk
		want  string
	}{
		"one, beside a longer line that begins with it": {
			[]hunk{{Old: "\tone()\n", New: "\tten()\n"}},
			strings.Replace(source, "\tone()\n", "\tten()\n", 1),
		},
		"two, in any order": {
			[]hunk{{Old: "\tthree()\n}\n", New: "}\n"}, {Old: "\tone()\n\ttwo()\n", New: "\ttwo()\n\tten()\n"}},
			"package a\n\nfunc f() {\n\ttwo()\n\tten()\n\tone() // once more\n}\n",
		},
		"what one brings, another does not see": {
			[]hunk{{Old: "\ttwo()\n", New: "\tthree()\n"}, {Old: "\tthree()\n", New: "\tfour()\n"}},
			strings.NewReplacer("two", "three", "three", "four").Replace(source),
		},
		"the first line of the file": {[]hunk{{Old: "package a\n", New: "package b\n"}}, strings.Replace(source, "package a", "package b", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := apply(source, c.hunks)
			if err != nil || got != c.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, c.want)
			}
		})
	}
}

func TestAHunkThatDoesNotFitOnceIsOutOfStep(t *testing.T) {
	twice := source + "\ttwo()\n"
	for name, c := range map[string]struct {
		source string
		hunk   hunk
		want   string
	}{
		"not there":              {source, hunk{Line: 7, Old: "\tfive()\n"}, `hunk of line 7: out of step with the code: its old lines are not there, first of them "five()"`},
		"there as part of lines": {source, hunk{Old: "one()\n"}, "are not there"},
		"there with other lines": {source, hunk{Old: "\tone()\n\tthree()\n"}, "are not there"},
		"there twice":            {twice, hunk{Old: "\ttwo()\n"}, "are there 2 times"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := apply(c.source, []hunk{c.hunk})
			if !errors.Is(err, errStep) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestHunksThatTouchTheSameLineAreRefused(t *testing.T) {
	_, err := apply(source, []hunk{{Line: 1, Old: "\tone()\n\ttwo()\n"}, {Line: 2, Old: "\ttwo()\n"}})
	if err == nil || !strings.Contains(err.Error(), "hunk of line 2: it touches lines of another hunk") {
		t.Errorf("error is %v", err)
	}
}

func TestTheOverlayNamesTheCopiesAndLeavesTheSourcesAlone(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	original := filepath.Join(root, "node", "a.go")
	if err := os.Mkdir(filepath.Dir(original), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(original, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	m := mutant{Name: "m", Files: []patch{{Path: "node/a.go", Hunks: []hunk{{Old: "\ttwo()\n", New: "\tten()\n"}}}}}
	path, err := m.overlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if b, err := os.ReadFile(path); err != nil || json.Unmarshal(b, &overlay) != nil {
		t.Fatalf("the overlay cannot be read: %v", err)
	}
	copied, err := os.ReadFile(overlay.Replace[original])
	if err != nil || string(copied) != strings.Replace(source, "two", "ten", 1) {
		t.Errorf("%v: the copy is\n%s", err, copied)
	}
	if b, _ := os.ReadFile(original); string(b) != source {
		t.Error("the source was changed")
	}
}

func TestAMutantOutOfStepIsNamedWithItsFile(t *testing.T) {
	m := mutant{Name: "lost", Files: []patch{
		{Path: "hack/mutants/doc.go", Hunks: []hunk{{Line: 6, Old: "no such line\n"}}},
		{Path: "hack/mutants/none.go", Hunks: []hunk{{Line: 9, Old: "no such line\n"}}},
	}}
	_, err := m.patched(repository(t))
	for _, want := range []string{"mutant lost, file hack/mutants/doc.go: hunk of line 6", "mutant lost, file hack/mutants/none.go"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestEveryMutantFitsTheSources keeps them in step with the code, without compiling any.
func TestEveryMutantFitsTheSources(t *testing.T) {
	root := repository(t)
	mutants, err := readMutants(filepath.Join(root, filepath.FromSlash(mutantsFolder)), nil)
	if err != nil {
		t.Error(err)
	}
	if len(mutants) == 0 {
		t.Error("there are none")
	}
	defects := map[string]string{}
	for i := range mutants {
		m := &mutants[i]
		if _, err := m.patched(root); err != nil {
			t.Error(err)
		}
		if other, taken := defects[m.Defect]; taken {
			t.Errorf("mutants %s and %s describe the same defect", other, m.Name)
		}
		defects[m.Defect] = m.Name
	}
}
