package partition

import (
	"fmt"

	"github.com/spatialcells/spatialcells/node/torus"
)

// Unpainted is the ordinal, or the area, of a region that no area covers.
const Unpainted = -1

// Area gives a rectangle of regions to the node of an ordinal. It starts inside the grid and may go on behind the seam.
type Area struct {
	Ordinal                    int
	Column, Row, Width, Height int
	// Reason is shown wherever the area explains an owner.
	Reason string
}

// AreaError is an area that cannot be painted.
type AreaError struct {
	// Index of the area in its list.
	Index int
	Area  Area
	// Problem says what is wrong and what to do.
	Problem string
}

// Error names the area by its index and reason.
func (e *AreaError) Error() string {
	name := ""
	if e.Area.Reason != "" {
		name = fmt.Sprintf(" %q", e.Area.Reason)
	}
	return fmt.Sprintf("areas[%d]%s: %s", e.Index, name, e.Problem)
}

// Paint paints the areas in order, a later one over an earlier one, on a grid of columns x rows regions, numbers that
// torus.NewGrid accepts. It returns the ordinal of each region in the order of torus.Grid.RegionIndex, Unpainted where
// none covers it, and an *AreaError per area that was left out because it does not fit.
func Paint(columns, rows int, areas []Area) (ordinals []int, problems []error) {
	ordinals, problems = PaintIndex(columns, rows, areas)
	for i, area := range ordinals {
		if area != Unpainted {
			ordinals[i] = areas[area].Ordinal
		}
	}
	return ordinals, problems
}

// PaintIndex is Paint, but returns for each region the index of the area that won it.
func PaintIndex(columns, rows int, areas []Area) (winners []int, problems []error) {
	winners = make([]int, columns*rows)
	for i := range winners {
		winners[i] = Unpainted
	}
	for i, area := range areas {
		if problem := area.problem(columns, rows); problem != "" {
			problems = append(problems, &AreaError{Index: i, Area: area, Problem: problem})
			continue
		}
		area.paint(winners, columns, rows, i)
	}
	return winners, problems
}

// paint writes color to the area's regions.
func (a Area) paint(regions []int, columns, rows, color int) {
	for y := range a.Height {
		row := (a.Row + y) % rows
		for x := range a.Width {
			regions[row*columns+(a.Column+x)%columns] = color
		}
	}
}

// problem says why the area does not fit the grid; "" if it does.
func (a Area) problem(columns, rows int) string {
	switch {
	case a.Ordinal < 0:
		return fmt.Sprintf("ordinal %d: use the ordinal of a node, 0 or more", a.Ordinal)
	case a.Column < 0 || a.Column >= columns:
		return fmt.Sprintf("column %d is outside the grid of %d columns: use 0 to %d", a.Column, columns, columns-1)
	case a.Row < 0 || a.Row >= rows:
		return fmt.Sprintf("row %d is outside the grid of %d rows: use 0 to %d", a.Row, rows, rows-1)
	case a.Width < 1 || a.Width > columns:
		return fmt.Sprintf("width %d: use 1 to %d, the columns of the grid", a.Width, columns)
	case a.Height < 1 || a.Height > rows:
		return fmt.Sprintf("height %d: use 1 to %d, the rows of the grid", a.Height, rows)
	}
	return ""
}

// AppendHoles appends the regions that Paint or PaintIndex left unpainted on a grid of that many columns.
func AppendHoles(dst []torus.RegionPos, columns int, painted []int) []torus.RegionPos {
	for i, color := range painted {
		if color == Unpainted {
			dst = append(dst, torus.RegionPos{Column: int32(i % columns), Row: int32(i / columns)})
		}
	}
	return dst
}
