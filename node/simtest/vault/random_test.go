package vault

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/store/storetest"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// TestAFailoverTakesBackExactlyWhatWasNotAcknowledged: with failovers as the only fault, what was answered happened, in
// the order of the answers of each key, and nothing else did.
func TestAFailoverTakesBackExactlyWhatWasNotAcknowledged(t *testing.T) {
	undone := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		w, model := newWorld(rapid.Uint64().Draw(t, "seed")), &store.Memory{}
		c := w.Client("a#1")
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if rapid.IntRange(0, 5).Draw(t, "fail over") == 0 {
				w.FailoverAll()
			}
			w.pass(time.Duration(rapid.IntRange(0, 4000).Draw(t, "pause")) * time.Microsecond)
			req := storetest.AnyRequest(t, model)
			req.Record.Account = 0
			switch req.Op {
			case zone.StoreLoad, zone.StoreLoadRegion, zone.StorePeek:
				continue
			}
			c.Submit(req, func(got zone.StoreAnswer) {
				if got.Code == zone.StoreUnavailable {
					return
				}
				if want := model.Do(req); !reflect.DeepEqual(got, want) {
					t.Fatalf("%+v\n got %+v %+v\nwant %+v %+v", req, got, got.Record, want, want.Record)
				}
			})
		}
		w.pass(time.Hour)
		sameInTheEnd(t, w, model)
		undone += w.Counters().Undone
	})
	if undone == 0 {
		t.Error("no failover took anything back")
	}
}

func TestAFailoverOfOneSlotLeavesTheOthersAlone(t *testing.T) {
	w := newWorld(1)
	c := w.Client("a#1")
	var asked [200]*outcome
	for i := range asked {
		asked[i] = w.submit(c, create(record(ecs.EntityID(i+1), "")))
	}
	w.pass(1500 * time.Microsecond)
	w.Failover(3)
	w.pass(time.Minute)
	lost := 0
	for i, a := range asked {
		_, kept := w.Record(ecs.EntityID(i + 1))
		if inSlot := keyOfEntity(ecs.EntityID(i+1)).slot() == 3; kept != (a.Code == zone.StoreOK) || !kept && !inSlot {
			t.Errorf("entity %d, in the slot: %t: answered %d, kept: %t", i+1, inSlot, a.Code, kept)
		}
		if !kept {
			lost++
		}
	}
	if lost == 0 || uint64(lost) != w.Counters().Undone {
		t.Errorf("%d are lost, %d were taken back", lost, w.Counters().Undone)
	}
}

// owner saves one entity again and again, moves it now and then, claims the session of its account, and repeats what was
// not known to be done, as an engine does. It checks at any moment that what was acknowledged is still there.
type owner struct {
	world
	client  *Client
	id      ecs.EntityID
	account uint64
	region  torus.RegionPos
	number  uint64

	// As acknowledged.
	exists                 bool
	epoch                  zone.Epoch
	saved, sessions, fence uint64

	hand, ground pouch

	claims, tries uint64
	failure       string
}

// pouch is a holder in which item n takes the place of item n-1 with write n.
type pouch struct {
	holder zone.Holder
	// moves were acknowledged.
	moves uint64
}

// ask repeats a request until it is answered.
func (o *owner) ask(req zone.StoreRequest, done func(zone.StoreAnswer)) {
	o.tries++
	o.client.Submit(req, func(a zone.StoreAnswer) {
		if a.Code == zone.StoreUnavailable {
			o.after(500*time.Millisecond, func() { o.ask(req, done) })
			return
		}
		if a.Code != zone.StoreOK {
			o.failure = fmt.Sprintf("%+v is answered %+v", req, a)
		}
		done(a)
	})
}

func (o *owner) live() {
	rec := record(o.id, "0")
	rec.Home, rec.Account = o.region, o.account
	o.ask(create(rec), func(zone.StoreAnswer) {
		o.exists = true
		o.save()
		o.move(&o.hand, zone.StoreRequest{})
	})
	o.move(&o.ground, zone.StoreRequest{})
	o.load()
	o.login()
}

func (o *owner) save() {
	o.number++
	n := o.number
	rec := zone.Record{Entity: o.id, Epoch: o.epoch, Home: o.region, Blob: fmt.Append(nil, n)}
	o.ask(save(rec), func(zone.StoreAnswer) {
		o.saved = n
		if n%5 != 0 {
			o.save()
			return
		}
		next := o.epoch.Transferred(1)
		o.ask(claim(o.id, o.epoch, next, o.region), func(zone.StoreAnswer) {
			o.epoch = next
			o.save()
		})
	})
}

// move makes the next write to a holder. While that is refused, because the epoch has risen since it was sent, it is tried
// again with the epoch as it is: it is still the same write, of which an earlier try may be on its way.
func (o *owner) move(p *pouch, known zone.StoreRequest) {
	next := p.moves + 1
	change := &zone.Change{Made: 1, AddItems: []zone.Held{{Item: zone.Item{Serial: next, Count: 1}}}}
	if p.holder.OnGround() {
		change.AddItems[0].Lying.Entity = 1
	}
	if p.moves > 0 {
		change.RemoveItems, change.Ended = []uint64{p.moves}, 1
	}
	req := zone.StoreRequest{
		Op: zone.StoreWrite, Holder: p.holder, Expect: known.Expect, RegionEpoch: known.RegionEpoch,
		Moves: p.moves, Write: next, Change: change,
	}
	o.tries++
	o.client.Submit(req, func(a zone.StoreAnswer) {
		switch a.Code {
		case zone.StoreOK:
			p.moves++
		case zone.StoreUnavailable:
			o.after(500*time.Millisecond, func() { o.move(p, req) })
			return
		case zone.StoreConflict:
			if req.RegionEpoch = a.RegionEpoch; a.Record != nil {
				req.Expect = a.Record.Epoch
			}
		default:
			o.failure = fmt.Sprintf("%+v is answered %+v", req, a)
		}
		o.move(p, req)
	})
}

// inPouch returns what is wrong with the contents of a holder, or nothing.
func (o *owner) inPouch(p pouch) string {
	c, _, _ := o.contentsOf(p.holder)
	if c.Moves == 0 && p.moves == 0 {
		return ""
	}
	if len(c.Items) != 1 || c.Items[0].Serial != c.Moves || c.Made != c.Moves || c.Ended != c.Moves-1 || c.Moves < p.moves {
		return fmt.Sprintf("acknowledged write %d to %+v, which has %+v", p.moves, p.holder, c)
	}
	return ""
}

func (o *owner) load() {
	req := zone.StoreRequest{Op: zone.StoreLoadRegion, Region: o.region, RegionEpoch: o.fence + 1}
	o.ask(req, func(zone.StoreAnswer) {
		o.fence++
		o.load()
	})
}

// loginPause keeps a claim that lands late among the last store.ClaimHistory ones: it is known as a repeat only there.
const loginPause = time.Second

func (o *owner) login() {
	o.claims++
	o.ask(session(o.claims, o.account, "s"), func(a zone.StoreAnswer) {
		if o.sessions++; a.SessionEpoch != o.sessions {
			o.failure = fmt.Sprintf("session claim %d has epoch %d", o.sessions, a.SessionEpoch)
		}
		o.after(loginPause, o.login)
	})
}

// check returns what is wrong, or nothing.
func (o *owner) check() string {
	rec, exists := o.Record(o.id)
	saved := uint64(0)
	_, _ = fmt.Sscan(string(rec.Blob), &saved)
	switch account := o.tables.accounts[o.account]; {
	case o.failure != "":
		return o.failure
	case o.inPouch(o.hand)+o.inPouch(o.ground) != "":
		return o.inPouch(o.hand) + o.inPouch(o.ground)
	case o.exists && !exists:
		return "an acknowledged creation is lost"
	case rec.Epoch.Less(o.epoch):
		return fmt.Sprintf("acknowledged epoch %v, stored %v", o.epoch, rec.Epoch)
	case saved < o.saved:
		return fmt.Sprintf("acknowledged save %d, stored %d", o.saved, saved)
	case o.Fence(o.region) < o.fence:
		return fmt.Sprintf("acknowledged fence %d, stored %d", o.fence, o.Fence(o.region))
	case account.epoch < o.sessions || o.exists && account.master != o.id:
		return fmt.Sprintf("acknowledged session %d, stored %+v", o.sessions, account)
	}
	return ""
}

// trouble sets one fault, or ends it.
func (w world) trouble(r *rand.Rand) {
	on := r.IntN(3) == 0
	switch r.IntN(8) {
	case 0:
		w.SetAway(on)
	case 1:
		w.SetReadOnly(on)
	case 2:
		w.SetFull(on)
	case 3:
		w.SetSlow([]int{1, 1, 20, 600}[r.IntN(4)])
	case 4:
		w.SetTimeouts([]float64{0, 0.1, 0.5}[r.IntN(3)])
	case 5:
		w.FailoverAll()
	default:
		w.Failover(r.IntN(Slots))
	}
}

// live lets owners and faults run and returns what the owners were answered, and the counters.
func live(t *testing.T, seed uint64) ([]string, Counters) {
	w, chance := newWorld(seed), rand.New(rand.NewPCG(seed, 2))
	owners := make([]*owner, 4)
	for i := range owners {
		owners[i] = &owner{
			world: w, client: w.Client(fmt.Sprintf("n%d#1", i)), id: ecs.EntityID(i + 1), account: uint64(i + 1),
			region: torus.RegionPos{Column: int32(i)},
			hand:   pouch{holder: zone.Holder{Entity: ecs.EntityID(i + 1)}},
			ground: pouch{holder: zone.Holder{Region: torus.RegionPos{Column: int32(i)}}},
		}
		owners[i].live()
	}
	var trace []string
	for range 3000 {
		w.pass(time.Duration(chance.IntN(30_000)) * time.Microsecond)
		for _, o := range owners {
			if wrong := o.check(); wrong != "" {
				t.Fatalf("seed %d, at %v, entity %d: %s", seed, w.time.Now(), o.id, wrong)
			}
			trace = append(trace, fmt.Sprint(w.time.Now(), o.id, o.epoch, o.saved, o.sessions, o.fence, o.hand.moves, o.ground.moves, o.tries))
		}
		if chance.IntN(10) == 0 {
			w.trouble(chance)
		}
	}
	return trace, w.Counters()
}

func TestWhatWasAcknowledgedSurvivesEveryFault(t *testing.T) {
	var sum Counters
	total := reflect.ValueOf(&sum).Elem()
	for seed := range uint64(20) {
		_, c := live(t, seed)
		for i, v := 0, reflect.ValueOf(c); i < v.NumField(); i++ {
			total.Field(i).SetUint(total.Field(i).Uint() + v.Field(i).Uint())
		}
	}
	// Nobody dies here, no account has two creations, and who changes contents knows what they are.
	never := []string{"DeadLandings", "GivenUp", "Unfitting"}
	for i := range total.NumField() {
		name := total.Type().Field(i).Name
		if total.Field(i).Uint() == 0 && !slices.Contains(never, name) {
			t.Errorf("%s never happened: %+v", name, sum)
		}
	}
}

func TestTheSameSeedGivesTheSameAnswersAtTheSameTimes(t *testing.T) {
	a, counted := live(t, 7)
	b, again := live(t, 7)
	if !slices.Equal(a, b) || counted != again {
		t.Error("two runs of one seed differ")
	}
	if other, _ := live(t, 8); slices.Equal(a, other) {
		t.Error("two seeds give one run")
	}
}
