package audit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/zone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is a store that a test fills by hand.
type shelf struct {
	*miniredis.Miniredis
	t      *testing.T
	client redis.UniversalClient
}

func newShelf(t *testing.T) shelf {
	t.Helper()
	s := miniredis.RunT(t)
	c, err := Client(connect.Config{URL: "redis://" + s.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return shelf{s, t, c}
}

// record writes a record in region 1,2 with fields besides, and its entry in the index.
func (s shelf) record(id int, fields ...string) shelf {
	key := fmt.Sprintf("{e:%d}", id)
	s.HSet(key, "format", "2", "recoveries", "0", "transfers", "3", "column", "1", "row", "2", "account", "0", "resting", "0", "blob", "b", "version", "1")
	s.set(key, fields)
	s.HSet("{r:1,2}:index", fmt.Sprint(id), "0 3")
	return s
}

func (s shelf) ground(at string, fields ...string) shelf {
	key := "{r:" + at + "}:ground"
	s.HSet(key, "format", "2")
	s.set(key, fields)
	return s
}

func (s shelf) set(key string, fields []string) {
	if len(fields) > 0 {
		s.HSet(key, fields...)
	}
}

// sound is a world in which every form of everything is, and nothing is wrong.
func sound(t *testing.T) shelf {
	s := newShelf(t)
	// Item 10 has ended; item 1 is with 1; 2 is on its way from 1 to the ground; 3 has arrived there and 1 has not cleared;
	// 4 was not wanted by 2 and is not back yet; 5 lies on the ground.
	s.record(1, "made", "6", "ended", "1", "moves", "9", "i:1", "7 1", "o:102", "2 7 1 r1,2 90 5 6 0", "o:103", "3 7 1 r1,2 91 5 6 0",
		"o:104", "4 7 1 e2 0 0 0 0", "counts", "1 3 0 0", "account", "0")
	s.record(2, "n:104", "e1 1", "account", "8")
	s.ground("1,2", "i:3", "7 1 91 5 6 0", "i:5", "7 2 92 5 6 0", "n:103", "e1 0", "n:99", "e2 0", "c:5,6", "3")
	s.HSet("{e:3}", "void", "1")
	s.HSet("{a:8}", "master", "2", "since", "5", "epoch", "4", "login", "3", "secret", "s", "gateway", "g")
	s.HSet("{a:9}", "master", "77", "since", "5")
	s.HSet("{r:1,2}:index", "77", "0 0")
	s.Set("{r:1,2}:fence", "5")
	s.Set("{sync}", "1")
	s.Set(connect.Key, "default/genesis/1")
	s.Set("{t:"+strings.Repeat("a", 64)+"}", "1")
	return s
}

func (s shelf) audit() *Report {
	s.t.Helper()
	r, err := Run(s.t.Context(), s.client, Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func TestASoundStoreHasNoFaults(t *testing.T) {
	r := sound(t).audit()
	want := Report{
		Records: 2, Grounds: 1, Items: 5, Made: 6, Ended: 1, Open: 3, Leftovers: 1, GivenUp: 1, Underway: 1, Accounts: 2,
		Indexes: 1, Entries: 3, Fences: 1, Tokens: 1, Passes: 1,
	}
	got := *r
	got.serials = nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "no faults") || !strings.Contains(text.String(), "movements open 3") {
		t.Errorf("%v: %s", err, &text)
	}
}

func TestEachFaultIsFoundAndSaysWhereItIs(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(shelf)
		kinds  []Kind
		text   []string
	}{
		"an item with two entities": {
			func(s shelf) { s.HSet("{e:2}", "i:1", "7 1") },
			[]Kind{Twice},
			[]string{"item 1 is in 2 places: with {e:1}, with {e:2}", "HDEL"},
		},
		"an item that stayed where it left": {
			func(s shelf) {
				s.HSet("{r:1,2}:ground", "i:2", "7 1 90 5 6 0")
				s.HDel("{e:1}", "counts")
			},
			[]Kind{Twice},
			[]string{"item 2 is in 2 places: with {r:1,2}:ground, leaving {e:1}"},
		},
		"an item that arrived where it was refused": {
			func(s shelf) { s.HSet("{e:2}", "i:4", "7 1") },
			[]Kind{Twice},
			[]string{"item 4", "leaving {e:1}, with {e:2}"},
		},
		"an item that is gone":             {func(s shelf) { s.HDel("{r:1,2}:ground", "i:5") }, []Kind{Lost}, []string{"6 items were made and 1 have ended, so there are 5, but 4", "--expect"}},
		"an item that vanished on its way": {func(s shelf) { s.HDel("{r:1,2}:ground", "i:3") }, []Kind{Lost}, []string{"but 4"}},
		"an item that nobody made":         {func(s shelf) { s.HSet("{e:2}", "i:50", "7 1") }, []Kind{Surplus}, []string{"but 6"}},
		"a whole record gone":              {func(s shelf) { s.Del("{e:1}") }, []Kind{Surplus}, []string{"0 items were made"}},
		"a movement used twice": {
			func(s shelf) { s.HSet("{e:2}", "o:103", "6 7 1 r1,2 0 0 0 0", "made", "1") },
			[]Kind{Movement},
			[]string{"movement 103 leaves {e:2}, and {r:1,2}:ground remembers that it came from {e:1}"},
		},
		"a record of an unknown format":  {func(s shelf) { s.HSet("{e:2}", "format", "9") }, []Kind{Unreadable}, []string{"{e:2}", "format"}},
		"an item in unreadable words":    {func(s shelf) { s.HSet("{e:1}", "i:1", "7 -1") }, []Kind{Unreadable}, []string{"{e:1}", "i:1"}},
		"a record of some fields":        {func(s shelf) { s.HDel("{e:2}", "column") }, []Kind{Unreadable}, []string{"{e:2}"}},
		"a record of other fields":       {func(s shelf) { s.HSet("{e:6}", "nonsense", "1") }, []Kind{Unreadable}, []string{"{e:6}", "none of the fields"}},
		"a given up record with fields":  {func(s shelf) { s.HSet("{e:3}", "i:60", "7 1") }, []Kind{Unreadable}, []string{"{e:3}", "given up"}},
		"a record of another type":       {func(s shelf) { s.Set("{e:6}", "x") }, []Kind{Unreadable}, []string{"{e:6}", "WRONGTYPE"}},
		"counts that are wrong":          {func(s shelf) { s.HSet("{e:1}", "counts", "1 3 7 0") }, []Kind{Unreadable}, []string{"{e:1}", `"1 3 7 0"`, `"1 3 0 0"`}},
		"a ground of an unknown format":  {func(s shelf) { s.HSet("{r:3,3}:ground", "i:1", "7 1 90 5 6 0") }, []Kind{Unreadable}, []string{"{r:3,3}:ground", "format"}},
		"an index without a record":      {func(s shelf) { s.HDel("{r:1,2}:index", "2") }, []Kind{Index}, []string{"{e:2}", "{r:1,2}:index", "HSET"}},
		"an index entry of nonsense":     {func(s shelf) { s.HSet("{r:1,2}:index", "5", "x") }, []Kind{Unreadable}, []string{"{r:1,2}:index", `"5"`}},
		"an index of another type":       {func(s shelf) { s.Set("{r:4,4}:index", "x") }, []Kind{Unreadable}, []string{"{r:4,4}:index"}},
		"a fence of nonsense":            {func(s shelf) { s.Set("{r:1,2}:fence", "-1") }, []Kind{Unreadable}, []string{"{r:1,2}:fence", `"-1"`}},
		"a fence above all":              {func(s shelf) { s.Set("{r:1,2}:fence", "9007199254740992") }, []Kind{Unreadable}, []string{"{r:1,2}:fence"}},
		"a fence of another type":        {func(s shelf) { s.HSet("{r:4,4}:fence", "a", "b") }, []Kind{Unreadable}, []string{"{r:4,4}:fence"}},
		"an account of another master":   {func(s shelf) { s.HSet("{a:8}", "master", "1") }, []Kind{Account, Account}, []string{"{e:2}", "{a:8}", "names entity 1"}},
		"an account without a master":    {func(s shelf) { s.HDel("{a:8}", "master") }, []Kind{Account}, []string{"{e:2}", "names none"}},
		"a master of another account":    {func(s shelf) { s.HSet("{e:2}", "account", "5") }, []Kind{Account, Account}, []string{"{a:5}", "whose record says account 5"}},
		"an account in unreadable words": {func(s shelf) { s.HSet("{a:8}", "epoch", "four") }, []Kind{Unreadable}, []string{"{a:8}", "epoch"}},
		"a login of the future":          {func(s shelf) { s.HSet("{a:8}", "login", "5") }, []Kind{Unreadable}, []string{"{a:8}", "login"}},
		"an account of another type":     {func(s shelf) { s.Set("{a:6}", "x") }, []Kind{Unreadable}, []string{"{a:6}"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sound(t)
			c.damage(s)
			r := s.audit()
			var kinds []Kind
			var text strings.Builder
			for _, f := range r.Faults {
				kinds = append(kinds, f.Kind)
				fmt.Fprintln(&text, f)
				if f.Do == "" {
					t.Errorf("%s does not say what to do", f)
				}
			}
			if !slices.Equal(kinds, c.kinds) || r.Found != len(kinds) {
				t.Errorf("found %d, want %v:\n%s", r.Found, c.kinds, &text)
			}
			for _, want := range c.text {
				if !strings.Contains(text.String(), want) {
					t.Errorf("%q is not in %s", want, &text)
				}
			}
		})
	}
}

func TestWhatIsExpectedIsComparedWithWhatIsThere(t *testing.T) {
	r := sound(t).audit()
	r.Expect(Expectation{Present: []uint64{1, 2, 3, 4, 5}, Absent: []uint64{10}})
	if r.Found != 0 {
		t.Fatalf("faults %v", r.Faults)
	}
	r.Expect(Expectation{Present: []uint64{10}, Absent: []uint64{2}})
	if r.Found != 2 || r.Faults[0].Kind != Missing || r.Faults[0].Serial != 10 || r.Faults[1].Kind != Unexpected || r.Faults[1].Serial != 2 {
		t.Errorf("faults %v", r.Faults)
	}
}

func TestAMasterThatWasGivenUpIsUnderWay(t *testing.T) {
	s := sound(t)
	s.HSet("{a:7}", "master", "3")
	if r := s.audit(); r.Found != 0 || r.Underway != 2 {
		t.Errorf("%+v", r)
	}
}

func TestOnlySoManyFaultsAreDescribed(t *testing.T) {
	r := sound(t).audit()
	for range maxFaults + 5 {
		r.fault(Fault{Kind: Lost})
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || len(r.Faults) != maxFaults || !strings.Contains(text.String(), "and 5 more") {
		t.Errorf("%v, %d faults", err, len(r.Faults))
	}
}

func TestKeysOfOthersAreCounted(t *testing.T) {
	s := sound(t)
	for _, name := range []string{"{e:01}", "{e:0}", "{e:x}", "{r:1,2}", "{r:99,2}:ground", "{r:1,02}:ground", "{a:0}", "{t:short}", "mine", "{e:1}x"} {
		s.Set(name, "x")
	}
	if r := s.audit(); r.Others != 10 || r.Found != 0 {
		t.Errorf("%d others, faults %v", r.Others, r.Faults)
	}
}

func TestAStoreThatIsAwayIsNoStoreWithFaults(t *testing.T) {
	s := sound(t)
	s.SetError("LOADING soon")
	if _, err := Run(t.Context(), s.client, Options{}); err == nil {
		t.Error("it was looked at")
	}
}

// hook is called before each command.
func hook(do func(command string)) server.Hook {
	return func(_ *server.Peer, command string, _ ...string) bool {
		do(strings.ToUpper(command))
		return false
	}
}

// TestAWorldThatNeverRestsIsSaidToBeBusy: with each pass another record comes into use, twenty in all.
func TestAWorldThatNeverRestsIsSaidToBeBusy(t *testing.T) {
	s := newShelf(t)
	for id := range 40 {
		s.record(id + 1)
	}
	next := 0
	s.Server().SetPreHook(hook(func(command string) {
		if command == "SCAN" && next < 20 {
			next++
			s.HSet(fmt.Sprintf("{e:%d}", next), "moves", "1", "write", "4")
		}
	}))
	if r, err := Run(t.Context(), s.client, Options{Passes: 5, Wait: time.Nanosecond}); r != nil || !errors.Is(err, ErrBusy) {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := Run(t.Context(), s.client, Options{Wait: time.Nanosecond}); err != nil || r.Found != 0 || r.Busy < 10 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestWhatComesAndGoesWhileItIsReadIsNotMissed(t *testing.T) {
	s := sound(t)
	scans := 0
	s.Server().SetPreHook(hook(func(command string) {
		if command != "SCAN" {
			return
		}
		switch scans++; scans {
		case 2: // item 1 goes to a record that was not there, whole
			s.HDel("{e:1}", "i:1")
			s.HSet("{e:1}", "moves", "12", "write", "77", "counts", "0 3 0 0")
			s.record(20, "i:1", "7 1", "n:110", "e1 0", "moves", "1", "write", "78")
		case 3:
			s.Del("{e:20}")
			s.HSet("{e:1}", "i:1", "7 1", "moves", "13", "write", "79", "counts", "1 3 0 0")
		}
	}))
	r := s.audit()
	if r.Found != 0 || r.Busy != 2 || r.Passes != 2 {
		t.Errorf("%+v", r)
	}
}

// TestWhatIsInUseIsReadAtOneInstant: an item moves while the holders in use are read.
func TestWhatIsInUseIsReadAtOneInstant(t *testing.T) {
	s := sound(t)
	scans, reads := 0, 0
	s.Server().SetPreHook(hook(func(command string) {
		switch {
		case command == "SCAN":
			if scans++; scans == 2 {
				s.HSet("{e:1}", "moves", "10", "write", "70")
				s.HSet("{e:2}", "moves", "1", "write", "71")
			}
		case command == "HGETALL" && scans == 2:
			if reads++; reads == 2 {
				s.HDel("{e:1}", "i:1")
				s.HSet("{e:1}", "counts", "0 3 0 0")
				s.HSet("{e:2}", "i:1", "7 1")
			}
		}
	}))
	if r := s.audit(); r.Found != 0 || r.Busy != 2 || reads != 2 {
		t.Errorf("%d reads, %+v", reads, r)
	}
}

// TestFaultsThatAreCertainAreReportedOfABusyWorldToo: what is only met twice is not among them.
func TestFaultsThatAreCertainAreReportedOfABusyWorldToo(t *testing.T) {
	s := newShelf(t)
	s.record(1, "i:5", "7 1").record(2).record(3, "i:6", "7 1").record(4, "o:9", "6 7 1 e5 0 0 0 0").record(6, "format", "8")
	s.record(7, "i:8", "7 1").record(8, "o:11", "8 7 1 e9 0 0 0 0").record(9)
	next := 100
	s.Server().SetPreHook(hook(func(command string) {
		if command == "SCAN" {
			next++
			s.record(next)
		}
	}))
	w, err := Read(t.Context(), s.client, Options{Passes: 3, Wait: time.Nanosecond})
	if !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	// Item 5 was met with 2 before it went to 1.
	w.Put(zone.Holder{Entity: 2}, []any{"format", "2", "recoveries", "0", "transfers", "3", "column", "1", "row", "2", "account", "0", "resting", "0", "blob", "b", "i:5", "7 1"})
	s.HSet("{e:9}", "n:11", "e8 0") // item 8 has arrived since, and gone on to 7
	r, err := w.proven(t.Context(), s.client)
	if err != nil || r.Found != 2 || r.Faults[0].Kind != Unreadable || r.Faults[1].Serial != 6 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestATransactionIsBounded: so much is in use that the server would do nothing else for long.
func TestATransactionIsBounded(t *testing.T) {
	s := newShelf(t)
	blob := strings.Repeat("b", 1<<20)
	for id := range maxTransaction>>20 + 1 {
		s.record(id+1, "blob", blob)
	}
	scans := 0
	s.Server().SetPreHook(hook(func(command string) {
		if command == "SCAN" {
			if scans++; scans == 2 {
				for id := range maxTransaction>>20 + 1 {
					s.HSet(fmt.Sprintf("{e:%d}", id+1), "moves", "1")
				}
			}
		}
	}))
	if r, err := Run(t.Context(), s.client, Options{}); !errors.Is(err, ErrBusy) || scans != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestARecordThatWalksIsFoundWhereItIs: it is in the index of its home at every instant, but not in that of its last one.
func TestARecordThatWalksIsFoundWhereItIs(t *testing.T) {
	s := sound(t)
	looks := 0
	s.Server().SetPreHook(hook(func(command string) {
		if command != "HEXISTS" {
			return
		}
		if looks++; looks > 20 {
			return
		}
		s.HSet(fmt.Sprintf("{r:5,%d}:index", looks), "2", "0 4")
		s.HSet("{e:2}", "column", "5", "row", fmt.Sprint(looks))
		s.HDel("{r:1,2}:index", "2")
		s.HDel(fmt.Sprintf("{r:5,%d}:index", looks-1), "2")
	}))
	if r := s.audit(); r.Found != 0 || looks <= 20 {
		t.Errorf("%d looks, %+v", looks, r)
	}
}

// TestARecordThatWasRemovedIsNotTakenForUnchanged: nothing does that but a hand, or a failover.
func TestARecordThatWasRemovedIsNotTakenForUnchanged(t *testing.T) {
	s := sound(t)
	scans := 0
	s.Server().SetPreHook(hook(func(command string) {
		if command == "SCAN" {
			if scans++; scans == 2 {
				s.Del("{r:1,2}:ground")
			}
		}
	}))
	if r := s.audit(); r.Grounds != 0 || r.Found == 0 || r.Faults[0].Kind != Lost {
		t.Errorf("%+v", r)
	}
}
