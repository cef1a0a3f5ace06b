package store

import (
	_ "embed"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Each script touches the keys of one slot tag only, and takes effect as a whole.
var (
	//go:embed scripts/session.lua
	sessionSource string
	//go:embed scripts/reserve.lua
	reserveSource string
	//go:embed scripts/void.lua
	voidSource string
	//go:embed scripts/create.lua
	createSource string
	//go:embed scripts/claim.lua
	claimSource string
	//go:embed scripts/save.lua
	saveSource string
	//go:embed scripts/region.lua
	regionSource string
	//go:embed scripts/enter.lua
	enterSource string
	//go:embed scripts/leave.lua
	leaveSource string
	//go:embed scripts/write.lua
	writeSource string
	//go:embed scripts/look.lua
	lookSource string
	//go:embed scripts/common.lua
	commonSource string

	sessionScript = newScript(sessionSource)
	reserveScript = newScript(reserveSource)
	voidScript    = newScript(commonSource + voidSource)
	createScript  = newScript(commonSource + createSource)
	claimScript   = newScript(commonSource + claimSource)
	saveScript    = newScript(commonSource + saveSource)
	regionScript  = newScript(regionSource)
	enterScript   = newScript(enterSource)
	leaveScript   = newScript(leaveSource)
	writeScript   = newScript(commonSource + writeSource)
	lookScript    = newScript(commonSource + lookSource).reader()
)

// script is sent by its hash, and in full to a server that does not know it yet.
type script struct {
	source string
	hash   string
	// reads: it changes nothing.
	reads bool
}

func newScript(source string) *script {
	return &script{source: source, hash: redis.NewScript(source).Hash()}
}

func (s *script) reader() *script {
	s.reads = true
	return s
}

func entityKey(id ecs.EntityID) string { return "{e:" + decimal(uint64(id)) + "}" }

func accountKey(id uint64) string { return "{a:" + decimal(id) + "}" }

func fenceKey(r torus.RegionPos) string { return "{r:" + r.String() + "}:fence" }

func indexKey(r torus.RegionPos) string { return "{r:" + r.String() + "}:index" }

func groundKey(r torus.RegionPos) string { return "{r:" + r.String() + "}:ground" }

// holderKeys are the keys of a holder: of a ground its hash and its fence.
func holderKeys(h zone.Holder) []string {
	if h.OnGround() {
		return []string{groundKey(h.Region), fenceKey(h.Region)}
	}
	return []string{entityKey(h.Entity)}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// epochArgs are the two arguments of an epoch.
func epochArgs(e zone.Epoch) []any {
	return []any{decimal(uint64(e.Recoveries)), decimal(uint64(e.Transfers))}
}

// regionArgs are the two arguments of a region.
func regionArgs(r torus.RegionPos) []any {
	return []any{decimal(uint64(r.Column)), decimal(uint64(r.Row))}
}
