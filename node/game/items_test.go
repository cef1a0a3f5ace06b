package game

import (
	"testing"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
)

func giveTo(to uint64) *wire.Input {
	return &wire.Input{Number: 1, Action: &wire.Input_Give{Give: &wire.Give{Serial: 7, To: to}}}
}

// TestWhatCannotBeGivenIsNotTaken: where it is known that nobody will take an item in, it does not leave its owner: else each try
// would cost writes, and who refuses would have to remember it.
func TestWhatCannotBeGivenIsNotTaken(t *testing.T) {
	const giver, near, far, lying, bestia, stranger = 1, 2, 3, 4, 5, 99
	for name, c := range map[string]struct {
		to     uint64
		border bool
		given  bool
	}{
		"somebody near":                       {to: near, given: true},
		"a bestia near":                       {to: bestia, given: true},
		"nobody":                              {to: 0},
		"oneself":                             {to: giver},
		"somebody out of reach":               {to: far},
		"what lies there":                     {to: lying},
		"a ground":                            {to: GroundBit},
		"another ground":                      {to: GroundBit | 3},
		"a ground at a border":                {to: GroundBit | 3, border: true},
		"a stranger":                          {to: stranger},
		"a stranger at a border":              {to: stranger, border: true, given: true},
		"somebody out of reach, at a border":  {to: far, border: true},
		"something beyond all worlds' ground": {to: GroundBit | 1<<40},
	} {
		s := newStage(t)
		s.border = c.border
		at := torus.Pos{X: 100, Y: 100}
		s.spawn(t, giver, at)
		s.spawn(t, near, s.grid.Add(at, HandReach, 0))
		s.spawn(t, far, s.grid.Add(at, HandReach+1, 0))
		for _, id := range []ecs.EntityID{lying, bestia} {
			if err := s.world.Create(id); err != nil {
				t.Fatal(err)
			}
		}
		s.SpawnItem(lying, Item{Serial: 8, Kind: KindStone, Count: 1}, at)
		s.SpawnBestia(bestia, giver, 1, "bestia", at)
		res := s.Act(giver, giveTo(c.to))
		if given := len(s.moves) > 0; given != c.given || given == (res != nil) {
			t.Errorf("%s: given %v, answered %v", name, given, res)
		}
	}
}
