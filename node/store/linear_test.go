package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/store/storetest"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Nodes that do not know of each other move items between holders. Each takes a holder for itself before it acts, by a
// claim or a raised fence, in the middle of what others do with it. The history of each serial has to be that of one thing
// that is in one place.

// stepKind is what is done with a serial.
type stepKind string

const (
	takes  stepKind = "take"
	puts   stepKind = "put"
	clears stepKind = "clear"
	looks  stepKind = "look"
)

// serialInput is one step: with whom, and for looks what was seen there.
type serialInput struct {
	serial uint64
	kind   stepKind
	holder zone.Holder
}

// seen is what a look finds at a holder.
type seen struct{ held, out bool }

// whereabouts is the state of a serial: with a holder, in the out entry of one, or both between put and clear.
type whereabouts struct {
	at, out            zone.Holder
	somewhere, leaving bool
}

// serialModel is a serial as a register that is compared and set. An output of nil: the step may have been taken or not.
var serialModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		bySerial := map[uint64][]porcupine.Operation{}
		for _, op := range history {
			serial := op.Input.(serialInput).serial
			bySerial[serial] = append(bySerial[serial], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range bySerial {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return whereabouts{} },
	Step: func(state, input, output any) (bool, any) {
		before, in := state.(whereabouts), input.(serialInput)
		after, fits := before.step(in, output)
		if output == nil && !fits {
			return true, before // it was not taken: it fails wherever it would come
		}
		return fits, after
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

func (w whereabouts) step(in serialInput, output any) (whereabouts, bool) {
	switch in.kind {
	case takes:
		fits := w.somewhere && w.at == in.holder && !w.leaving
		return whereabouts{out: in.holder, leaving: true}, fits
	case puts:
		fits := w.leaving && !w.somewhere
		if w == (whereabouts{}) { // its creation
			fits = true
		}
		w.at, w.somewhere = in.holder, true
		return w, fits
	case clears:
		fits := w.leaving && w.somewhere && w.out == in.holder
		w.out, w.leaving = zone.Holder{}, false
		return w, fits
	}
	return w, output == seen{w.somewhere && w.at == in.holder, w.leaving && w.out == in.holder}
}

// linear is a run of several nodes on one server.
type linear struct {
	start   time.Time
	holders []zone.Holder
	serials uint64
	names   atomic.Uint64 // of movements and writes
	steps   atomic.Int64
	repeats atomic.Int64 // of writes
	mu      sync.Mutex
	history []porcupine.Operation
}

func (l *linear) now() int64 { return time.Since(l.start).Nanoseconds() }

func (l *linear) record(node int, in serialInput, called int64, output any) {
	returned := l.now()
	if output == nil {
		returned = math.MaxInt64
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, porcupine.Operation{
		ClientId: node, Input: in, Call: called, Output: output, Return: returned,
	})
}

// saw records what was read of a holder.
func (l *linear) saw(node int, h zone.Holder, c zone.Contents, called int64) {
	for serial := uint64(1); serial <= l.serials; serial++ {
		found := seen{
			held: slices.ContainsFunc(c.Items, func(i zone.Held) bool { return i.Serial == serial }),
			out:  slices.ContainsFunc(c.Out, func(e zone.OutEntry) bool { return e.Item.Serial == serial }),
		}
		l.record(node, serialInput{serial, looks, h}, called, found)
	}
}

// mover is one node: it asks until it is answered.
type mover struct {
	*linear
	node   int
	store  storetest.Store
	chance *rand.Rand
}

// ask repeats a request until it is answered, and reports whether it had to.
func (m *mover) ask(req zone.StoreRequest) (ans zone.StoreAnswer, repeated bool) {
	for {
		if ans = m.store.Do(req); ans.Code != zone.StoreUnavailable {
			return ans, repeated
		}
		repeated = true
		<-time.After(5 * time.Millisecond)
	}
}

// owned is a holder that a node has taken for itself.
type owned struct {
	holder   zone.Holder
	epoch    zone.Epoch
	fence    uint64
	contents zone.Contents
}

// own takes a holder from whoever has it. Another may be quicker.
func (m *mover) own(h zone.Holder) (owned, bool) {
	called := m.now()
	if h.OnGround() {
		look, _ := m.ask(zone.StoreRequest{Op: zone.StorePeek, Holder: h})
		fence := look.RegionEpoch + 1
		ans, _ := m.ask(zone.StoreRequest{Op: zone.StoreLoadRegion, Region: h.Region, RegionEpoch: fence})
		if ans.Code != zone.StoreOK {
			return owned{}, false
		}
		m.saw(m.node, h, *ans.Contents, called)
		return owned{holder: h, fence: fence, contents: *ans.Contents}, true
	}
	load, _ := m.ask(zone.StoreRequest{Op: zone.StoreLoad, Entity: h.Entity})
	to := zone.Epoch{Recoveries: load.Record.Epoch.Recoveries + 1, Transfers: uint32(m.node)}
	ans, _ := m.ask(zone.StoreRequest{
		Op: zone.StoreClaim, Expect: load.Record.Epoch, Record: zone.Record{Entity: h.Entity, Epoch: to, Home: load.Record.Home},
	})
	if ans.Code != zone.StoreOK {
		return owned{}, false
	}
	m.saw(m.node, h, ans.Record.Contents, called)
	return owned{holder: h, epoch: to, contents: ans.Record.Contents}, true
}

func (m *mover) peek(h zone.Holder) zone.Contents {
	called := m.now()
	ans, _ := m.ask(zone.StoreRequest{Op: zone.StorePeek, Holder: h})
	m.saw(m.node, h, *ans.Contents, called)
	return *ans.Contents
}

// write makes a change to an owned holder and records what it is to a serial; kind empty: nothing. Now and then the node
// stops before it, long enough for the others to go on with the same movement to its end and beyond.
func (m *mover) write(o owned, ch *zone.Change, kind stepKind, serial uint64) {
	if m.chance.IntN(4) == 0 {
		<-time.After(time.Duration(m.chance.IntN(100)) * time.Millisecond)
	}
	called := m.now()
	ans, repeated := m.ask(zone.StoreRequest{
		Op: zone.StoreWrite, Holder: o.holder, Expect: o.epoch, RegionEpoch: o.fence, Moves: o.contents.Moves,
		Write: m.names.Add(1), Change: ch,
	})
	if repeated {
		m.repeats.Add(1)
	}
	switch in := (serialInput{serial, kind, o.holder}); {
	case kind == "":
	case ans.Code == zone.StoreOK:
		m.record(m.node, in, called, true)
	case repeated: // the first try may have been carried out, and others have written since
		m.record(m.node, in, called, nil)
	}
}

// step owns a holder and does one of the things that can be done there.
func (m *mover) step() {
	o, ok := m.own(m.holders[m.chance.IntN(len(m.holders))])
	if !ok {
		return
	}
	for _, i := range m.chance.Perm(4) {
		if []func(owned) bool{m.take, m.put, m.clear, m.forget}[i](o) {
			return
		}
	}
}

// take sends an item to another holder, or to the same.
func (m *mover) take(o owned) bool {
	if len(o.contents.Items) == 0 {
		return false
	}
	item := o.contents.Items[m.chance.IntN(len(o.contents.Items))].Item
	if slices.ContainsFunc(o.contents.Out, func(e zone.OutEntry) bool { return e.Item.Serial == item.Serial }) {
		return false // it came back before it was cleared
	}
	out := zone.OutEntry{Movement: m.names.Add(1), Item: item, To: m.holders[m.chance.IntN(len(m.holders))]}
	// A holder that it was put to may still remember its last movement at the one that it came from: clear first.
	for _, h := range m.holders {
		if h != o.holder && slices.ContainsFunc(m.peek(h).Out, func(e zone.OutEntry) bool { return e.Item.Serial == item.Serial }) {
			return false
		}
	}
	m.write(o, &zone.Change{RemoveItems: []uint64{item.Serial}, AddOut: []zone.OutEntry{out}}, takes, item.Serial)
	return true
}

// put takes in what is on its way here. That it is still on its way is looked at after the holder was owned: nobody else
// can have taken it in meanwhile.
func (m *mover) put(o owned) bool {
	for _, from := range m.holders {
		for _, out := range m.peek(from).Out {
			if out.To != o.holder || remembers(o.contents, out.Movement) {
				continue
			}
			item := zone.Held{Item: out.Item}
			if o.holder.OnGround() {
				item.Lying.Entity = ecs.EntityID(out.Item.Serial)
			}
			m.write(o, &zone.Change{
				AddItems: []zone.Held{item}, AddIn: []zone.InEntry{{Movement: out.Movement, From: from}},
			}, puts, out.Item.Serial)
			return true
		}
	}
	return false
}

func remembers(c zone.Contents, movement uint64) bool {
	return slices.ContainsFunc(c.In, func(e zone.InEntry) bool { return e.Movement == movement })
}

// clear ends a movement that has arrived.
func (m *mover) clear(o owned) bool {
	for _, out := range o.contents.Out {
		if remembers(m.peek(out.To), out.Movement) {
			m.write(o, &zone.Change{RemoveOut: []uint64{out.Movement}}, clears, out.Item.Serial)
			return true
		}
	}
	return false
}

// forget drops what is remembered of a movement that is cleared.
func (m *mover) forget(o owned) bool {
	for _, in := range o.contents.In {
		open := slices.ContainsFunc(m.peek(in.From).Out, func(e zone.OutEntry) bool { return e.Movement == in.Movement })
		if !open {
			m.write(o, &zone.Change{RemoveIn: []uint64{in.Movement}}, "", 0)
			return true
		}
	}
	return false
}

func TestEachSerialIsInOnePlaceWhateverNodesAndServerDo(t *testing.T) {
	const nodes, stepsEach, deaths = 5, 250, 5
	server := newRealServer(t, "always")
	l := &linear{start: time.Now(), serials: 5, holders: []zone.Holder{
		{Entity: 1}, {Entity: 2}, {Region: torus.RegionPos{Column: 1}}, {Region: torus.RegionPos{Column: 2}},
	}}
	setUp := &mover{linear: l, store: client(t, server.addr, patient)}
	for id := range ecs.EntityID(2) {
		rec := record(id + 1)
		for serial := uint64(1); id == 0 && serial <= l.serials; serial++ {
			rec.Contents.Items = append(rec.Contents.Items, held(serial).AddItems[0])
		}
		called := l.now()
		setUp.ask(zone.StoreRequest{Op: zone.StoreCreate, Record: rec})
		for _, i := range rec.Contents.Items {
			l.record(nodes, serialInput{i.Serial, puts, zone.Holder{Entity: rec.Entity}}, called, true)
		}
	}
	var running sync.WaitGroup
	for node := range nodes {
		m := &mover{
			linear: l, node: node, chance: rand.New(rand.NewPCG(uint64(node), 7)),
			store: client(t, server.addr, Options{Timeout: 2 * time.Second}),
		}
		running.Go(func() {
			for range stepsEach {
				m.step()
				l.steps.Add(1)
			}
		})
	}
	for death := range int64(deaths) {
		eventually(t, "work is done", func() bool { return l.steps.Load() > (death+1)*nodes*stepsEach/(deaths+1) })
		server.kill()
		server.start()
	}
	running.Wait()
	counts := map[stepKind]int{}
	unknown := 0
	for _, op := range l.history {
		if op.Output == nil {
			unknown++
		}
		counts[op.Input.(serialInput).kind]++
	}
	t.Logf("history of %d: %v, %d writes were repeated, %d have an unknown outcome", len(l.history), counts, l.repeats.Load(), unknown)
	for _, kind := range []stepKind{takes, puts, clears, looks} {
		if counts[kind] < 10 {
			t.Errorf("only %d of %s", counts[kind], kind)
		}
	}
	if result := porcupine.CheckOperationsTimeout(serialModel, l.history, time.Minute); result != porcupine.Ok {
		t.Errorf("the history is %s", result)
	}
}

func TestTheModelOfASerialRefusesWhatAStoreMustNotDo(t *testing.T) {
	a, b := zone.Holder{Entity: 1}, zone.Holder{Entity: 2}
	type op struct {
		kind   stepKind
		holder zone.Holder
		output any
	}
	created := op{puts, a, true}
	for name, c := range map[string]struct {
		ops  []op
		want porcupine.CheckResult
	}{
		"a whole movement":       {[]op{created, {takes, a, true}, {puts, b, true}, {clears, a, true}, {looks, b, seen{held: true}}}, porcupine.Ok},
		"two takes":              {[]op{created, {takes, a, true}, {takes, a, true}}, porcupine.Illegal},
		"two puts":               {[]op{created, {takes, a, true}, {puts, b, true}, {puts, a, true}}, porcupine.Illegal},
		"cleared before it came": {[]op{created, {takes, a, true}, {clears, a, true}}, porcupine.Illegal},
		"an old state is seen":   {[]op{created, {takes, a, true}, {looks, a, seen{held: true}}}, porcupine.Illegal},
		"it is gone":             {[]op{created, {looks, a, seen{}}}, porcupine.Illegal},
		"perhaps taken, it was":  {[]op{created, {takes, a, nil}, {puts, b, true}}, porcupine.Ok},
		"perhaps taken, not":     {[]op{created, {takes, a, nil}, {looks, a, seen{held: true}}}, porcupine.Ok},
		"perhaps, both seen":     {[]op{created, {takes, a, nil}, {looks, a, seen{out: true}}, {looks, a, seen{held: true}}}, porcupine.Illegal},
	} {
		var history []porcupine.Operation
		for i, o := range c.ops {
			returned := int64(2*i + 1)
			if o.output == nil {
				returned = math.MaxInt64
			}
			history = append(history, porcupine.Operation{
				Input: serialInput{1, o.kind, o.holder}, Output: o.output, Call: int64(2 * i), Return: returned,
			})
		}
		if got := porcupine.CheckOperationsTimeout(serialModel, history, time.Minute); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
