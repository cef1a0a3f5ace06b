package simtest

import (
	"fmt"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Ids of what is in the store before a plan begins: above those of any node's first seconds, in the shard of none.
const (
	firstMaster = ecs.EntityID(1) << 50
	firstBestia = ecs.EntityID(1) << 51
)

// records are what is in the store before the plan begins: resting masters of the accounts that have bestias, and those.
func (p *Plan) records() ([]zone.Record, error) {
	g, err := torus.NewGrid(p.Columns, p.Rows, p.EdgeChunks)
	if err != nil {
		return nil, err
	}
	var list []zone.Record
	for account := uint64(1); account <= maxPlayers; account++ {
		if n := p.Teams[account]; n > 0 {
			records, err := stock(g, account, n, p.birth(g, account))
			if err != nil {
				return nil, err
			}
			list = append(list, records...)
		}
	}
	return list, nil
}

// birth is where an account's master is at first: where its first login says.
func (p *Plan) birth(g torus.Grid, account uint64) torus.Pos {
	for _, a := range p.Actions {
		if a.Verb == "login" && a.arg("account") == int64(account) {
			return g.Wrap(torus.Pos{X: a.arg("x") + p.ShiftX, Y: a.arg("y") + p.ShiftY})
		}
	}
	return g.Wrap(torus.Pos{X: p.ShiftX, Y: p.ShiftY})
}

// stock composes the records of a resting master and its bestias, which stand around it.
func stock(g torus.Grid, account uint64, bestias int, at torus.Pos) ([]zone.Record, error) {
	master := firstMaster + ecs.EntityID(account)
	var team []game.Member
	var list []zone.Record
	for i := range bestias {
		id := firstBestia + ecs.EntityID(account*game.MaxTeam) + ecs.EntityID(i)
		where := g.Add(at, int64(i)-2, 1)
		r, err := zone.BestiaRecord(g, id, master, account, fmt.Sprintf("bestia %d of %d", i, account), where)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
		team = append(team, game.Member{Bestia: id, Home: g.RegionIndexOf(where)})
	}
	r, err := zone.MasterRecord(g, master, account, fmt.Sprintf("bot %d", account), at, team...)
	return append(list, r), err
}
