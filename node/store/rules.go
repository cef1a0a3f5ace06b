package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

const (
	// MaxBlob bounds the snapshot of one entity, in bytes.
	MaxBlob = 1 << 20
	// MaxName bounds session names and resume secrets, in bytes.
	MaxName = 512
	// MaxIndex bounds the ids in the index of one region that a load accepts.
	MaxIndex = 1 << 20
	// ClaimHistory is how many claims of an account's session are remembered. A claim that lands again while it is among
	// them answers as the first time, also if later claims have superseded it.
	ClaimHistory = 8

	// maxRegionEpoch keeps region epochs exact in a script, whose numbers are floating point.
	maxRegionEpoch = 1 << 53
)

// checkRequest reports why a request can not be carried out by any store. Such a request is a defect of the caller.
func checkRequest(req zone.StoreRequest) error {
	switch req.Op {
	case zone.StoreClaimSession:
		return checkSessionClaim(req)
	case zone.StoreCreate:
		if err := checkContents(sortContents(CloneContents(req.Record.Contents)), false); err != nil {
			return err
		}
		return checkRecord(req.Record)
	case zone.StoreClaim, zone.StoreSave:
		return checkRecord(req.Record)
	case zone.StoreLoadRegion:
		if req.RegionEpoch >= maxRegionEpoch {
			return fmt.Errorf("region epoch %d is above %d", req.RegionEpoch, uint64(maxRegionEpoch))
		}
		return checkRegion(req.Region)
	case zone.StoreLoad:
		if req.Entity == 0 {
			return fmt.Errorf("no entity")
		}
		return nil
	case zone.StoreWrite:
		return checkWrite(req)
	case zone.StorePeek:
		return checkHolder(req.Holder)
	}
	return fmt.Errorf("unknown operation %d", req.Op)
}

func checkWrite(req zone.StoreRequest) error {
	switch {
	case req.Write == 0:
		return fmt.Errorf("a write without a number")
	case req.Moves >= maxCount:
		return fmt.Errorf("a write after %d", req.Moves)
	case req.Holder.OnGround() && req.RegionEpoch >= maxRegionEpoch:
		return fmt.Errorf("region epoch %d is above %d", req.RegionEpoch, uint64(maxRegionEpoch))
	}
	if err := checkHolder(req.Holder); err != nil {
		return err
	}
	return checkChange(req.Change, req.Holder.OnGround())
}

func checkSessionClaim(req zone.StoreRequest) error {
	switch {
	case req.Account == 0:
		return fmt.Errorf("no account")
	case req.Session == "" || len(req.Session) > MaxName || strings.ContainsAny(req.Session, "\r\n\x00"):
		return fmt.Errorf("session of %d bytes is not a name of 1 to %d bytes in one line", len(req.Session), MaxName)
	case req.FreshSecret == "" || len(req.FreshSecret) > MaxName:
		return fmt.Errorf("fresh secret of %d bytes: use 1 to %d", len(req.FreshSecret), MaxName)
	}
	return nil
}

func checkRecord(r zone.Record) error {
	switch {
	case r.Entity == 0:
		return fmt.Errorf("no entity")
	case len(r.Blob) > MaxBlob:
		return fmt.Errorf("blob of %d bytes: use at most %d", len(r.Blob), MaxBlob)
	}
	return checkRegion(r.Home)
}

// checkRegion holds for every region of any grid; the store does not know which grid is the world's.
func checkRegion(r torus.RegionPos) error {
	if r.Column < 0 || r.Row < 0 || r.Column >= torus.MaxColumns || r.Row >= torus.MaxRows {
		return fmt.Errorf("region %s is in no grid", r)
	}
	return nil
}

// claimRise says what a claim does to the epoch. A claim that moves an entity has to raise it: with the old epoch in two
// regions the removal of a stale entry from an index could not be told from the removal of a live one.
type claimRise string

const (
	claimRaises claimRise = "raise"
	// claimKeeps wakes a resting record in place: allowed if the home stays, too.
	claimKeeps  claimRise = "keep"
	claimLowers claimRise = "lower"
)

func riseOf(expect, to zone.Epoch) claimRise {
	switch {
	case expect.Less(to):
		return claimRaises
	case expect == to:
		return claimKeeps
	}
	return claimLowers
}

// claimTakes reports whether a claim takes a record, and claimRepeats whether it has done so before.
func claimTakes(stored zone.Record, req zone.StoreRequest) bool {
	if stored.Epoch != req.Expect {
		return false
	}
	rise := riseOf(req.Expect, req.Record.Epoch)
	return rise == claimRaises || rise == claimKeeps && stored.Home == req.Record.Home
}

func claimRepeats(stored zone.Record, req zone.StoreRequest) bool {
	return stored.Epoch == req.Record.Epoch && stored.Home == req.Record.Home
}

// createdBy reports whether stored is what the creation of rec left, give or take saves.
func createdBy(stored, rec zone.Record) bool {
	return stored.Epoch == rec.Epoch && stored.Home == rec.Home && stored.Account == rec.Account
}

// sessionClaimID names a claim of an account's session over all its tries: a repeat has the number of its first try, and
// a session is one life of a node, which gives each number once. A claim anew, above what an owner knows, has a new one.
func sessionClaimID(req zone.StoreRequest) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", req.Session, req.ID, req.FreshSecret))
	return hex.EncodeToString(sum[:16])
}

// knownResume is the secret that a client showed, or empty if it can not be one.
func knownResume(req zone.StoreRequest) string {
	if len(req.Resume) > MaxName {
		return ""
	}
	return req.Resume
}

// sortRecords brings records into the order of their ids.
func sortRecords(records []zone.Record) {
	slices.SortFunc(records, func(a, b zone.Record) int {
		if a.Entity < b.Entity {
			return -1
		}
		return 1
	})
}

// answer is the empty answer to a request.
func answer(req zone.StoreRequest, code zone.StoreCode) zone.StoreAnswer {
	return zone.StoreAnswer{ID: req.ID, Op: req.Op, Code: code}
}

// answerWith is an answer with a record, whose blob it keeps.
func answerWith(req zone.StoreRequest, code zone.StoreCode, r zone.Record) zone.StoreAnswer {
	ans := answer(req, code)
	ans.Record = &r
	return ans
}
