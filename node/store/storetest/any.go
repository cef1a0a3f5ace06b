package storetest

import (
	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// AnyRequest draws a request from few values, so that requests meet. Most writes to contents are made to fit what a
// model has of their holder: the others are refused.
func AnyRequest(t *rapid.T, model Store) zone.StoreRequest {
	req := zone.StoreRequest{
		ID: rapid.Uint64Range(1, 3).Draw(t, "number"),
		Op: rapid.SampledFrom([]zone.StoreOp{
			zone.StoreClaimSession, zone.StoreCreate, zone.StoreClaim, zone.StoreSave, zone.StoreLoadRegion, zone.StoreLoad,
			zone.StoreWrite, zone.StoreWrite, zone.StorePeek,
		}).Draw(t, "operation"),
	}
	word := rapid.SampledFrom([]string{"a", "b", "c"})
	switch req.Op {
	case zone.StoreClaimSession:
		req.Account = rapid.Uint64Range(1, 2).Draw(t, "account")
		req.Session, req.Resume = word.Draw(t, "session"), word.Draw(t, "resume")
		req.FreshSecret = word.Draw(t, "secret")
	case zone.StoreLoadRegion:
		req.Region, req.RegionEpoch = anyRegion(t), rapid.Uint64Range(0, 3).Draw(t, "region epoch")
	case zone.StoreLoad:
		req.Entity = anyEntity(t)
	case zone.StorePeek:
		req.Holder = anyHolder(t)
	case zone.StoreWrite:
		req.Holder, req.Write = anyHolder(t), rapid.Uint64Range(1, 8).Draw(t, "write")
		req.Expect, req.RegionEpoch = anyEpoch(t), rapid.Uint64Range(0, 3).Draw(t, "region epoch")
		req.Moves = rapid.Uint64Range(0, 3).Draw(t, "moves")
		req.Change = anyChange(t, req.Holder.OnGround())
		if rapid.IntRange(0, 3).Draw(t, "fits") > 0 {
			fit(&req, model)
		}
	default:
		id := anyEntity(t)
		req.Expect = anyEpoch(t)
		req.Record = zone.Record{
			Entity: id, Epoch: anyEpoch(t), Home: anyRegion(t), Account: uint64(id) / 2,
			Resting: rapid.Bool().Draw(t, "resting"), Blob: []byte(word.Draw(t, "blob")),
		}
		if req.Op == zone.StoreCreate && rapid.Bool().Draw(t, "with contents") {
			req.Record.Contents = zone.Contents{Items: anyItems(t, false), Moves: 1, Made: 4, Ended: 2}
		}
	}
	return req
}

// fit lets a write present what is stored.
func fit(req *zone.StoreRequest, model Store) {
	if req.Holder.OnGround() {
		ans := model.Do(zone.StoreRequest{Op: zone.StorePeek, Holder: req.Holder})
		req.RegionEpoch, req.Moves = ans.RegionEpoch, ans.Contents.Moves
		return
	}
	if rec := model.Do(zone.StoreRequest{Op: zone.StoreLoad, Entity: req.Holder.Entity}).Record; rec != nil {
		req.Expect, req.Moves = rec.Epoch, rec.Contents.Moves
	}
}

func anyEntity(t *rapid.T) ecs.EntityID {
	return ecs.EntityID(rapid.Uint64Range(1, 4).Draw(t, "entity"))
}

func anyRegion(t *rapid.T) torus.RegionPos {
	return torus.RegionPos{Column: rapid.Int32Range(0, 1).Draw(t, "column"), Row: rapid.Int32Range(0, 1).Draw(t, "row")}
}

func anyEpoch(t *rapid.T) zone.Epoch {
	return zone.Epoch{
		Recoveries: rapid.Uint32Range(0, 1).Draw(t, "recoveries"), Transfers: rapid.Uint32Range(0, 2).Draw(t, "transfers"),
	}
}

func anyHolder(t *rapid.T) zone.Holder {
	if rapid.Bool().Draw(t, "on the ground") {
		return zone.Holder{Region: anyRegion(t)}
	}
	return zone.Holder{Entity: anyEntity(t)}
}

func anyKeys(t *rapid.T, what string) []uint64 {
	return rapid.SliceOfNDistinct(rapid.Uint64Range(1, 5), 0, 2, rapid.ID[uint64]).Draw(t, what)
}

func anyItems(t *rapid.T, ground bool) (items []zone.Held) {
	for _, serial := range anyKeys(t, "items") {
		h := zone.Held{Item: zone.Item{Serial: serial, Kind: 2, Count: rapid.Uint32Range(1, 3).Draw(t, "count")}}
		if ground {
			h.Lying = zone.Lying{Entity: anyEntity(t), At: torus.Pos{X: 7, Z: rapid.Int64Range(-1, 1).Draw(t, "z")}}
		}
		items = append(items, h)
	}
	return items
}

func anyChange(t *rapid.T, ground bool) *zone.Change {
	ch := &zone.Change{
		AddItems: anyItems(t, ground), RemoveItems: anyKeys(t, "removed items"),
		Made: rapid.Uint64Range(0, 1).Draw(t, "made"), Ended: rapid.Uint64Range(0, 1).Draw(t, "ended"),
	}
	if rapid.Bool().Draw(t, "entries are removed") {
		ch.RemoveOut, ch.RemoveIn = anyKeys(t, "removed out entries"), anyKeys(t, "removed in entries")
	} else {
		for _, movement := range anyKeys(t, "out entries") {
			ch.AddOut = append(ch.AddOut, zone.OutEntry{
				Movement: movement, Item: zone.Item{Serial: movement, Kind: 1, Count: 1}, To: anyHolder(t),
			})
		}
		for _, movement := range anyKeys(t, "in entries") {
			ch.AddIn = append(ch.AddIn, zone.InEntry{
				Movement: movement, From: anyHolder(t), Void: rapid.Bool().Draw(t, "void"),
			})
		}
	}
	if ground {
		for _, x := range anyKeys(t, "edits") {
			ch.Edits = append(ch.Edits, zone.Edit{X: int64(x), Y: 3, Depth: rapid.Uint32Range(1, 3).Draw(t, "depth")})
		}
	}
	return ch
}
