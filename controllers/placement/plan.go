package placement

import (
	"fmt"
	"strings"
)

// Policy says who decides.
type Policy string

// The two policies of a World.
const (
	Balanced Policy = "Balanced"
	Manual   Policy = "Manual"
)

// Reasons of a Refusal. They are reasons of the condition AssignmentAccepted.
const (
	ReasonAreasLeaveHoles       = "AreasLeaveHoles"
	ReasonOrdinalBeyondReplicas = "OrdinalBeyondReplicas"
	ReasonAreaBeyondGrid        = "AreaBeyondGrid"
	ReasonMoreNodesThanRegions  = "MoreNodesThanRegions"
	ReasonNodeWithoutRegions    = "NodeWithoutRegions"
)

// Area gives a rectangle of regions to a node. It may wrap around the torus. Width and height of 0 mean 1.
type Area struct {
	Ordinal, Column, Row, Width, Height int32
	// Reason is the user's name for it, may be empty.
	Reason string
}

// name is how messages call the area at an index.
func (d Declaration) name(index int) string {
	name := fmt.Sprintf("assignment.areas[%d]", index)
	if reason := d.Areas[index].Reason; reason != "" {
		name += " (" + reason + ")"
	}
	return name
}

// Declaration is what a World says about its assignment.
type Declaration struct {
	Grid   Grid
	Nodes  int32
	Policy Policy
	// Areas are painted in order: a later one wins.
	Areas []Area
}

// Refusal says why a Declaration has no Table, and what to do about it.
type Refusal struct {
	Reason, Message string
}

// Error makes a Refusal an error.
func (r *Refusal) Error() string { return r.Message }

// Plan computes the table a World declares.
func Plan(d Declaration) (Table, *Refusal) {
	if refusal := check(d); refusal != nil {
		return nil, refusal
	}
	table := paint(d)
	if d.Policy == Manual {
		if refusal := uncovered(d.Grid, table); refusal != nil {
			return nil, refusal
		}
	} else {
		table = balance(d.Grid, d.Nodes, table)
	}
	if refusal := idle(d, table); refusal != nil {
		return nil, refusal
	}
	return table, nil
}

func check(d Declaration) *Refusal {
	if int(d.Nodes) > d.Grid.Size() {
		return &Refusal{ReasonMoreNodesThanRegions, fmt.Sprintf(
			"%d nodes cannot share %s: at least one would own nothing. Set nodes.replicas to at most %d.",
			d.Nodes, plural(d.Grid.Size(), "region"), d.Grid.Size())}
	}
	for i, a := range d.Areas {
		if a.Ordinal < 0 || a.Ordinal >= d.Nodes {
			return &Refusal{ReasonOrdinalBeyondReplicas, fmt.Sprintf(
				"%s names node %d, and nodes.replicas is %d. Set replicas to at least %d, or give the area to another node.",
				d.name(i), a.Ordinal, d.Nodes, a.Ordinal+1)}
		}
		if a.Column < 0 || a.Column >= d.Grid.Columns || a.Row < 0 || a.Row >= d.Grid.Rows ||
			a.Width > d.Grid.Columns || a.Height > d.Grid.Rows {
			return &Refusal{ReasonAreaBeyondGrid, fmt.Sprintf(
				"%s starts at %d,%d and is %d wide and %d high; it must start inside the grid of %d x %d and be at most as wide and high as it.",
				d.name(i), a.Column, a.Row, max(a.Width, 1), max(a.Height, 1), d.Grid.Columns, d.Grid.Rows)}
		}
	}
	return nil
}

// paint lays the areas over an empty grid.
func paint(d Declaration) Table {
	t := make(Table, d.Grid.Size())
	for i := range t {
		t[i] = Nobody
	}
	for _, a := range d.Areas {
		for _, cell := range d.cells(a) {
			t[cell] = a.Ordinal
		}
	}
	return t
}

// cells are the regions of an area, by index.
func (d Declaration) cells(a Area) []int {
	var cells []int
	for row := range max(a.Height, 1) {
		for column := range max(a.Width, 1) {
			cells = append(cells, d.Grid.Index(a.Column+column, a.Row+row))
		}
	}
	return cells
}

// namedHoles is how many holes or areas a message lists.
const namedHoles = 5

func uncovered(g Grid, t Table) *Refusal {
	holes, names := 0, []string{}
	for i, owner := range t {
		if owner != Nobody {
			continue
		}
		if holes++; holes <= namedHoles {
			r := g.Region(i)
			names = append(names, fmt.Sprintf("%d,%d", r.Column, r.Row))
		}
	}
	if holes == 0 {
		return nil
	}
	more := ""
	if holes > namedHoles {
		more = fmt.Sprintf(" and %d more", holes-namedHoles)
	}
	return &Refusal{ReasonAreasLeaveHoles, fmt.Sprintf(
		"%s (column,row) %s%s belong to no area. Append areas that cover them, or put one area of %d x %d at the start of assignment.areas as a background.",
		plural(holes, "region"), strings.Join(names, " "), more, g.Columns, g.Rows)}
}

// idle refuses a table that leaves a node without a region.
func idle(d Declaration, t Table) *Refusal {
	for node, count := range t.Counts(d.Nodes) {
		if count == 0 {
			return &Refusal{ReasonNodeWithoutRegions, fmt.Sprintf(
				"the areas leave node %d without a region: %s. Give it an area, shorten the others, or lower nodes.replicas.", node, whyIdle(d, t, int32(node)))}
		}
	}
	return nil
}

// whyIdle says which areas a node without a region was given, and which later ones lie over them.
func whyIdle(d Declaration, t Table, node int32) string {
	var given, over []string
	under := make([]bool, len(t)) // the regions that areas of the node lie on
	for i, a := range d.Areas {
		covers := false
		for _, cell := range d.cells(a) {
			covers = covers || under[cell]
			under[cell] = under[cell] || a.Ordinal == node
		}
		switch {
		case a.Ordinal == node:
			given = append(given, d.name(i))
		case covers:
			over = append(over, d.name(i))
		}
	}
	if len(given) == 0 {
		return "none names it, and they leave nothing over"
	}
	return fmt.Sprintf("%s is covered by %s", first(given), first(over))
}

// first names the first of many areas.
func first(names []string) string {
	if more := len(names) - namedHoles; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedHoles], ", "), more)
	}
	return strings.Join(names, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
