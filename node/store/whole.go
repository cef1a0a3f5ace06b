package store

import (
	"strconv"
	"strings"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// What tools that read or write a store as a whole need to know of its keys and fields: see audit and backup.

// KeyKind is what a key is of.
type KeyKind uint8

// The kinds of keys. KeyOther is none that this program writes.
const (
	KeyOther KeyKind = iota
	KeyRecord
	KeyGround
	KeyIndex
	KeyFence
	KeyAccount
	KeyToken
	KeySync
)

// Key is a key of the store, read.
type Key struct {
	Kind KeyKind
	// Holder is the entity of a record, or the region of a ground, an index or a fence.
	Holder zone.Holder
	// Account is set for KeyAccount.
	Account uint64
}

// ParseKey reads a key. One that is not written exactly as this program writes it is KeyOther.
func ParseKey(name string) Key {
	k := parseKey(name)
	if k.Kind != KeyOther && k.Kind != KeyToken && k.String() != name {
		return Key{}
	}
	return k
}

func parseKey(name string) Key {
	tag, suffix, found := strings.Cut(name, "}")
	kind, word, _ := strings.Cut(tag, ":")
	if !found {
		return Key{}
	}
	switch kind {
	case "{e":
		id, err := strconv.ParseUint(word, 10, 64)
		if err != nil || id == 0 {
			return Key{}
		}
		return Key{Kind: KeyRecord, Holder: zone.Holder{Entity: ecs.EntityID(id)}}
	case "{a":
		id, err := strconv.ParseUint(word, 10, 64)
		if err != nil || id == 0 {
			return Key{}
		}
		return Key{Kind: KeyAccount, Account: id}
	case "{t":
		if len(word) != 64 || suffix != "" || strings.Trim(word, "0123456789abcdef") != "" {
			return Key{}
		}
		return Key{Kind: KeyToken}
	case "{sync":
		return Key{Kind: KeySync}
	case "{r":
		column, row, _ := strings.Cut(word, ",")
		c, errColumn := strconv.ParseUint(column, 10, 31)
		r, errRow := strconv.ParseUint(row, 10, 31)
		region := torus.RegionPos{Column: int32(c), Row: int32(r)}
		if errColumn != nil || errRow != nil || checkRegion(region) != nil {
			return Key{}
		}
		of := map[string]KeyKind{":ground": KeyGround, ":index": KeyIndex, ":fence": KeyFence}
		return Key{Kind: of[suffix], Holder: zone.Holder{Region: region}}
	}
	return Key{}
}

// String is the key's name; empty for tokens and keys of no kind, which do not say theirs.
func (k Key) String() string {
	switch k.Kind {
	case KeyRecord:
		return entityKey(k.Holder.Entity)
	case KeyGround:
		return groundKey(k.Holder.Region)
	case KeyIndex:
		return indexKey(k.Holder.Region)
	case KeyFence:
		return fenceKey(k.Holder.Region)
	case KeyAccount:
		return accountKey(k.Account)
	case KeySync:
		return "{sync}"
	}
	return ""
}

// HolderKey is the key of what a holder has.
func HolderKey(h zone.Holder) string { return holderKeys(h)[0] }

// IndexKey is the key of a region's index.
func IndexKey(r torus.RegionPos) string { return indexKey(r) }

// AccountKey is the key of an account's entry.
func AccountKey(account uint64) string { return accountKey(account) }

// DecodeHolder reads all fields of a holder, given as name, value, name, value ... Of a ground only the contents of the
// record are set. It is not found if it has no fields, or is an entity without a record. Errors say what is not as this
// program writes it.
func DecodeHolder(h zone.Holder, fields []any) (rec zone.Record, found bool, err error) {
	if h.OnGround() {
		rec.Contents, err = decodeGround(h.Region, fields)
		return rec, len(fields) > 0, err
	}
	return decodeHash(h.Entity, fields, true)
}

// DecodeEpoch reads the epoch of an entry in an index: "recoveries transfers".
func DecodeEpoch(s string) error { return checkEpoch(s) }

// EncodeEpoch is an epoch as the index has it.
func EncodeEpoch(e zone.Epoch) string { return words(uint64(e.Recoveries), uint64(e.Transfers)) }

// EncodeCounts is the field counts of a holder with such contents.
func EncodeCounts(c zone.Contents) string {
	return words(uint64(len(c.Items)), uint64(len(c.Out)), uint64(len(c.In)), uint64(len(c.Edits)))
}

// MaxFields bounds the fields of a holder that DecodeHolder accepts.
func MaxFields(ground bool) int { return maxContentFields(ground) }

// MaxFence bounds region epochs: they are below it.
const MaxFence = maxRegionEpoch
