package vault

import (
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// write changes the contents of a holder, in its one slot.
func (v *Vault) write(req zone.StoreRequest) reply {
	contents, written, exists := v.contentsOf(req.Holder)
	switch {
	case !exists:
		return reply{answer: answerTo(req, zone.StoreMissing)}
	case written == req.Write:
		return reply{answer: answerTo(req, zone.StoreOK)}
	case !v.mayWrite(req):
		v.counters.Fenced++
		return v.refuseWrite(req)
	case contents.Moves != req.Moves:
		v.counters.StaleWrites++
		return v.refuseWrite(req)
	case store.Apply(&contents, req.Change, req.Holder.OnGround()) != nil:
		v.counters.Unfitting++
		return v.refuseWrite(req)
	}
	return reply{answer: answerTo(req, zone.StoreOK), undo: v.setContents(req.Holder, contents, req.Write)}
}

// contentsOf returns what a holder has, and the last write to it. A ground exists even if nothing ever lay there.
func (v *Vault) contentsOf(h zone.Holder) (c zone.Contents, written uint64, exists bool) {
	if h.OnGround() {
		g := v.tables.grounds[h.Region]
		return g.contents, g.written, true
	}
	s := v.tables.records[h.Entity]
	return s.record.Contents, s.written, s.exists
}

func (v *Vault) setContents(h zone.Holder, c zone.Contents, written uint64) (undo func()) {
	if h.OnGround() {
		return replace(v.tables.grounds, h.Region, ground{c, written})
	}
	s := v.tables.records[h.Entity]
	s.record.Contents, s.written = c, written
	return replace(v.tables.records, h.Entity, s)
}

// mayWrite: the writer shows exactly the epoch that is stored.
func (v *Vault) mayWrite(req zone.StoreRequest) bool {
	if req.Holder.OnGround() {
		return v.tables.fences[req.Holder.Region] == req.RegionEpoch
	}
	return v.tables.records[req.Holder.Entity].record.Epoch == req.Expect
}

// refuseWrite answers with the holder as it is.
func (v *Vault) refuseWrite(req zone.StoreRequest) reply {
	if req.Holder.OnGround() {
		return reply{answer: v.answerGround(req, zone.StoreConflict)}
	}
	rec := v.tables.records[req.Holder.Entity].record
	rec.Blob = nil
	return reply{answer: answerWith(req, zone.StoreConflict, rec)}
}

func (v *Vault) answerGround(req zone.StoreRequest, code zone.StoreCode) zone.StoreAnswer {
	ans := answerTo(req, code)
	ans.RegionEpoch = v.tables.fences[req.Holder.Region]
	ans.Contents = new(store.CloneContents(v.tables.grounds[req.Holder.Region].contents))
	return ans
}

func (v *Vault) peek(req zone.StoreRequest) reply {
	if req.Holder.OnGround() {
		return reply{answer: v.answerGround(req, zone.StoreOK)}
	}
	contents, _, exists := v.contentsOf(req.Holder)
	if !exists {
		return reply{answer: answerTo(req, zone.StoreMissing)}
	}
	ans := answerTo(req, zone.StoreOK)
	ans.Contents = new(store.CloneContents(contents))
	return reply{answer: ans}
}

// EachHolder yields every holder with its contents, as readers see them now, in no order. They are the vault's own: yield
// must not change them. What it yields stays as it is when the vault goes on.
func (v *Vault) EachHolder(yield func(zone.Holder, zone.Contents) bool) {
	for id, s := range v.tables.records {
		if s.exists && !yield(zone.Holder{Entity: id}, s.record.Contents) {
			return
		}
	}
	for region, g := range v.tables.grounds {
		if !yield(zone.Holder{Region: region}, g.contents) {
			return
		}
	}
}

// PutGround replaces what lies on the ground of a region, without a request: it fills a world before it starts.
func (v *Vault) PutGround(region torus.RegionPos, c zone.Contents) {
	v.tables.grounds[region] = ground{contents: store.CloneContents(c)}
}
