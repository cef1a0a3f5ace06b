package store

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/spatialcells/spatialcells/node/zone"
)

// ruin makes a record of a server unreadable in some way.
var ruin = map[string]func(m *miniredis.Miniredis, key string){
	"unknown format":   func(m *miniredis.Miniredis, key string) { m.HSet(key, "format", "3") },
	"no format":        func(m *miniredis.Miniredis, key string) { m.HDel(key, "format") },
	"no epoch":         func(m *miniredis.Miniredis, key string) { m.HDel(key, "recoveries") },
	"negative epoch":   func(m *miniredis.Miniredis, key string) { m.HSet(key, "transfers", "-1") },
	"large epoch":      func(m *miniredis.Miniredis, key string) { m.HSet(key, "transfers", "4294967296") },
	"odd number":       func(m *miniredis.Miniredis, key string) { m.HSet(key, "recoveries", "007") },
	"far region":       func(m *miniredis.Miniredis, key string) { m.HSet(key, "column", "64") },
	"no account":       func(m *miniredis.Miniredis, key string) { m.HSet(key, "account", "") },
	"half resting":     func(m *miniredis.Miniredis, key string) { m.HSet(key, "resting", "2") },
	"no blob":          func(m *miniredis.Miniredis, key string) { m.HDel(key, "blob") },
	"huge blob":        func(m *miniredis.Miniredis, key string) { m.HSet(key, "blob", strings.Repeat("b", MaxBlob+1)) },
	"another type":     func(m *miniredis.Miniredis, key string) { m.Del(key); _ = m.Set(key, "text") },
	"a hash of others": func(m *miniredis.Miniredis, key string) { m.Del(key); m.HSet(key, "row", "1") },
}

// ruinContents makes the contents of a record unreadable; a session, which is told none, does not see that.
var ruinContents = map[string]func(m *miniredis.Miniredis, key string){
	"item of no serial": func(m *miniredis.Miniredis, key string) { m.HSet(key, "i:x", "1 1") },
	"item of no count":  func(m *miniredis.Miniredis, key string) { m.HSet(key, "i:4", "1 0") },
	"item that lies":    func(m *miniredis.Miniredis, key string) { m.HSet(key, "i:4", "1 1 5 0 0 0") },
	"out to nobody":     func(m *miniredis.Miniredis, key string) { m.HSet(key, "o:4", "4 1 1 e0 0 0 0 0") },
	"half void":         func(m *miniredis.Miniredis, key string) { m.HSet(key, "n:4", "e5 2") },
	"edit of an entity": func(m *miniredis.Miniredis, key string) { m.HSet(key, "c:1,1", "1") },
	"moves as text":     func(m *miniredis.Miniredis, key string) { m.HSet(key, "moves", "many") },
	"too many items": func(m *miniredis.Miniredis, key string) {
		for i := range zone.MaxHeld + 1 {
			m.HSet(key, fmt.Sprintf("i:%d", i+1), "1 1")
		}
	},
}

func TestARecordThatIsUnreadableIsAnErrorAndNeverOverwritten(t *testing.T) {
	all := maps.Clone(ruin)
	maps.Copy(all, ruinContents)
	for name, harm := range all {
		t.Run(name, func(t *testing.T) {
			server := embedded(t)
			s := client(t, server.Addr(), patient)
			create := zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)}
			create.Record.Account = 5
			s.Do(create)
			harm(server, entityKey(1))
			before := server.Dump()
			for _, req := range []zone.StoreRequest{
				{Op: zone.StoreLoad, Entity: 1},
				{Op: zone.StoreLoadRegion, Region: record(1).Home},
				{Op: zone.StorePeek, Holder: zone.Holder{Entity: 1}},
				{Op: zone.StoreWrite, Holder: zone.Holder{Entity: 1}, Write: 1, Moves: 9, Change: held(3)},
				create,
			} {
				if req.Op >= zone.StoreWrite && strings.Contains(name, "blob") {
					continue // they are not about it
				}
				if a := s.Do(req); a.Code != zone.StoreUnavailable {
					t.Errorf("operation %d answers %+v", req.Op, a)
				}
			}
			// A session is told of its master without the blob, and a ruined epoch equals none that a claim expects.
			for _, req := range []zone.StoreRequest{
				{Op: zone.StoreClaimSession, Account: 5, Session: "s", FreshSecret: "f"},
				claimOf(1, 1000, 1001, record(1).Home),
			} {
				if a := s.Do(req); a.Code == zone.StoreOK && !strings.Contains(name, "blob") && ruinContents[name] == nil {
					t.Errorf("operation %d answers %+v", req.Op, a)
				}
			}
			if after := server.Dump(); recordPart(before) != recordPart(after) {
				t.Errorf("the record was changed from\n%s\nto\n%s", before, after)
			}
			if a := s.Do(zone.StoreRequest{Op: zone.StoreCreate, Record: record(2)}); a.Code != zone.StoreOK {
				t.Errorf("another record suffers: %+v", a)
			}
		})
	}
}

// recordPart is the part of a dump that shows record 1.
func recordPart(dump string) string {
	from := strings.Index(dump, "- {e:1}")
	part := dump[from+1:]
	if end := strings.Index(part, "\n- "); end >= 0 {
		part = part[:end]
	}
	return part
}

func TestADirectoryOrIndexThatIsUnreadableIsAnError(t *testing.T) {
	account := zone.StoreRequest{Op: zone.StoreClaimSession, Account: 5, Session: "s", FreshSecret: "f"}
	region := zone.StoreRequest{Op: zone.StoreLoadRegion, Region: record(1).Home, RegionEpoch: 2}
	create := zone.StoreRequest{Op: zone.StoreCreate, Record: record(1)}
	create.Record.Account = 5
	index, fence, ground := indexKey(region.Region), fenceKey(region.Region), groundKey(region.Region)
	look := zone.StoreRequest{Op: zone.StorePeek, Holder: zone.Holder{Region: region.Region}}
	write := zone.StoreRequest{Op: zone.StoreWrite, Holder: look.Holder, Write: 1, Change: lying(1)}
	for name, c := range map[string]struct {
		harm func(m *miniredis.Miniredis)
		req  zone.StoreRequest
	}{
		"account of another type":    {func(m *miniredis.Miniredis) { _ = m.Set("{a:5}", "x") }, account},
		"epoch that is no number":    {func(m *miniredis.Miniredis) { m.HSet("{a:5}", "epoch", "x") }, account},
		"master that is no number":   {func(m *miniredis.Miniredis) { m.HSet("{a:5}", "master", "x") }, account},
		"secret that is too long":    {func(m *miniredis.Miniredis) { m.HSet("{a:5}", "gateway", strings.Repeat("g", MaxName+1)) }, account},
		"taken by no number":         {func(m *miniredis.Miniredis) { m.HSet("{a:5}", "master", "-4") }, create},
		"taken by nobody":            {func(m *miniredis.Miniredis) { m.HSet("{a:5}", "master", "0") }, create},
		"fence that is no number":    {func(m *miniredis.Miniredis) { _ = m.Set(fence, "high") }, region},
		"fence of another type":      {func(m *miniredis.Miniredis) { m.HSet(fence, "a", "b") }, region},
		"fence with needless zeros":  {func(m *miniredis.Miniredis) { _ = m.Set(fence, "01") }, look},
		"ground of another type":     {func(m *miniredis.Miniredis) { _ = m.Set(ground, "x") }, region},
		"ground of no format":        {func(m *miniredis.Miniredis) { m.HSet(ground, "moves", "1") }, region},
		"ground of another format":   {func(m *miniredis.Miniredis) { m.HSet(ground, "format", "3") }, look},
		"written, of another format": {func(m *miniredis.Miniredis) { m.HSet(ground, "format", "3") }, write},
		"written, of no format":      {func(m *miniredis.Miniredis) { m.HSet(ground, "moves", "0") }, write},
		"written, of bad counts":     {func(m *miniredis.Miniredis) { m.HSet(ground, "format", "2", "made", "x") }, write},
		"item without a place":       {func(m *miniredis.Miniredis) { m.HSet(ground, "format", "2", "i:4", "1 1") }, look},
		"item that nobody shows":     {func(m *miniredis.Miniredis) { m.HSet(ground, "format", "2", "i:4", "1 1 0 5 5 5") }, look},
		"item in no world":           {func(m *miniredis.Miniredis) { m.HSet(ground, "format", "2", "i:4", "1 1 9 -5 5 5") }, look},
		"edit without a depth":       {func(m *miniredis.Miniredis) { m.HSet(ground, "format", "2", "c:4,5", "0") }, look},
		"index of another type":      {func(m *miniredis.Miniredis) { _ = m.Set(index, "x") }, region},
		"index of no ids":            {func(m *miniredis.Miniredis) { m.HSet(index, "x", "0 0") }, region},
		"index without epochs":       {func(m *miniredis.Miniredis) { m.HSet(index, "1", "0") }, region},
	} {
		t.Run(name, func(t *testing.T) {
			server := embedded(t)
			s := client(t, server.Addr(), patient)
			c.harm(server)
			if a := s.Do(c.req); a.Code != zone.StoreUnavailable {
				t.Errorf("answer %+v", a)
			}
		})
	}
}

// replyFrom makes a reply of any shape from any bytes, as deep as the scripts' replies are.
func replyFrom(b *[]byte, depth int) any {
	if len(*b) == 0 {
		return nil
	}
	head := (*b)[0]
	*b = (*b)[1:]
	switch head % 4 {
	case 0:
		return nil
	case 1:
		return int64(head)
	case 2:
		n := min(int(head/4), len(*b))
		s := string((*b)[:n])
		*b = (*b)[n:]
		return s
	}
	if depth == 0 {
		return "deep"
	}
	values := make([]any, 0, head/4)
	for range head / 4 {
		values = append(values, replyFrom(b, depth-1))
	}
	return values
}

// bytesFor is the inverse of replyFrom for seeds.
func bytesFor(reply any) []byte {
	switch v := reply.(type) {
	case string:
		return append([]byte{byte(len(v)*4 + 2)}, v...)
	case []any:
		b := []byte{byte(len(v)*4 + 3)}
		for _, e := range v {
			b = append(b, bytesFor(e)...)
		}
		return b
	}
	return []byte{0}
}

// FuzzReplies lets every operation meet any reply at each of its steps: it ends in an answer or an error, never in a
// panic, and what it answers is valid.
func FuzzReplies(f *testing.F) {
	fields := []any{"1", "0", "3", "1", "2", "5", "0", "blob"}
	hash := []any{
		"format", "2", "recoveries", "0", "transfers", "3", "column", "1", "row", "2", "account", "5", "resting", "0", "blob", "b",
		"moves", "3", "i:8", "2 1", "o:9", "8 2 1 e5 0 0 0 0", "n:4", "r1,2 1", "made", "2", "ended", "1",
	}
	floor := []any{"format", "2", "moves", "7", "i:8", "2 1 9 5 6 -7", "o:9", "8 2 1 r1,2 9 5 6 -7", "c:4,5", "2"}
	for _, seed := range []any{
		fields,
		[]any{"claimed", fields, "1", "2"},
		[]any{"exists", fields},
		[]any{"created"},
		[]any{"void"},
		[]any{"raised", []any{"7", "0 3", "8", "1 0"}},
		[]any{"conflict"},
		[]any{"taken", "9", "2"},
		[]any{"taken", "9", "99"},
		[]any{"reserved", "7", "0"},
		[]any{"1", "1", "0", "gateway", "secret", "7"},
		[]any{"saved"},
		[]any{},
		[]any{"exists", []any{nil, nil}},
		hash,
		[]any{"claimed", hash, "1", "2"},
		[]any{"exists", hash},
		[]any{"written"},
		[]any{"missing"},
		[]any{"conflict", "fence", hash, "4"},
		[]any{"conflict", "moves", floor, "4"},
		[]any{"found", floor, "4"},
	} {
		f.Add(bytesFor(seed))
	}
	rec := record(7)
	rec.Account = 5
	requests := []zone.StoreRequest{
		{Op: zone.StoreClaimSession, Account: 5, Session: "s", FreshSecret: "f"},
		{Op: zone.StoreCreate, Record: rec},
		{Op: zone.StoreCreate, Record: record(7)},
		claimOf(7, 0, 3, rec.Home),
		{Op: zone.StoreSave, Record: rec},
		{Op: zone.StoreLoadRegion, Region: rec.Home},
		{Op: zone.StoreLoad, Entity: 7},
		{Op: zone.StoreWrite, Holder: zone.Holder{Entity: 7}, Write: 1, Change: held(1)},
		{Op: zone.StoreWrite, Holder: zone.Holder{Region: rec.Home}, Write: 1, Change: lying(1)},
		{Op: zone.StorePeek, Holder: zone.Holder{Entity: 7}},
		{Op: zone.StorePeek, Holder: zone.Holder{Region: rec.Home}},
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, req := range requests {
			rest := b
			for s := first(req, stamp{}); s != nil; {
				replies := make([]any, len(s.calls))
				for i := range replies {
					replies[i] = replyFrom(&rest, 3)
				}
				out := s.then(replies)
				checkOutcome(t, req, out)
				s = out.next
			}
		}
	})
}

func checkOutcome(t *testing.T, req zone.StoreRequest, out outcome) {
	t.Helper()
	switch a := out.answer; {
	case out.err != nil && (out.answer != nil || out.next != nil):
		t.Fatalf("operation %d goes on after error %v", req.Op, out.err)
	case out.err != nil && !errors.Is(out.err, errReply) && !errors.Is(out.err, errUnderWay):
		t.Fatalf("operation %d: error of no known kind: %v", req.Op, out.err)
	case a == nil:
	case a.Op != req.Op || a.Code == 0:
		t.Fatalf("operation %d answers %+v", req.Op, a)
	case a.Record != nil && checkRecord(*a.Record) != nil:
		t.Fatalf("operation %d answers an invalid record %+v", req.Op, a.Record)
	case a.Record != nil && checkContents(a.Record.Contents, false) != nil:
		t.Fatalf("operation %d answers invalid contents %+v", req.Op, a.Record)
	case a.Contents != nil && checkContents(*a.Contents, req.Op == zone.StoreLoadRegion || req.Holder.OnGround()) != nil:
		t.Fatalf("operation %d answers invalid contents %+v", req.Op, a.Contents)
	}
}
