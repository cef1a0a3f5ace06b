package simtest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spatialcells/spatialcells/node/client"
	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/game/motion"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/torus"
)

// Two runs may lag behind each other: a walker waits at each border for the answer to its offer, and begins its step of up
// to 7 ticks anew after it. Around a corner it does so three times in one walk, on one side only.
const (
	slackTicks  = 40
	slackMetres = 8 // walked in that time
	// slackStamina: points that the metres and the ticks of rest make.
	slackStamina = 2
	// edgeTicks is how long it takes to walk along a chunk. At the edge of what a client sees a metre aside decides for so
	// long whether an entity is in sight.
	edgeTicks = torus.ChunkEdge * 1000 / motion.DefaultSpeed
)

// clientTrace is what one client was told, in a form that does not depend on how the world is cut: entities by their
// names, places as if nothing were shifted, times in ticks of the world.
type clientTrace struct {
	sights  map[string][]sighted // by entity: it appears, it vanishes, and so on
	heard   map[string][]word    // by speaker
	walks   map[string]map[int]torus.Pos
	stamina map[int]uint32 // its own, which nobody else is told
	results []string
	final   map[string]torus.Pos
}

// sighted is an appearance or a vanish. far: the entity was at the edge of what the client may see.
type sighted struct {
	tick    int
	appears bool
	far     bool
}

func (s sighted) String() string {
	return fmt.Sprintf("%s at %d", map[bool]string{true: "appears", false: "vanishes"}[s.appears], s.tick)
}

type word struct {
	tick int
	text string
}

// recorder writes the traces of a run.
type recorder struct {
	r      *Run
	traces map[uint64]*clientTrace
	seen   map[*Client]map[ecs.EntityID]*client.Seen
	clocks map[*Client]gatewayClock
	begun  map[*Client]bool // it has had all chunks in its view once
	names  map[ecs.EntityID]string
	ids    map[string]ecs.EntityID
	wrong  error
}

// gatewayClock is the newest tick that a client was told, and when: it is told one only when there is news.
type gatewayClock struct {
	tick uint64
	at   int
}

func newRecorder(r *Run) *recorder {
	rec := &recorder{
		r: r, traces: map[uint64]*clientTrace{}, seen: map[*Client]map[ecs.EntityID]*client.Seen{},
		clocks: map[*Client]gatewayClock{}, begun: map[*Client]bool{}, names: map[ecs.EntityID]string{}, ids: map[string]ecs.EntityID{},
	}
	r.check.hears = func(cl *Client, h client.Said) {
		t, speaker := rec.of(cl), rec.names[h.Speaker]
		if s := cl.Entities[h.Speaker]; s != nil {
			speaker = rec.name(s)
		}
		t.heard[speaker] = append(t.heard[speaker], word{r.ticks, h.Text})
	}
	return rec
}

func (rec *recorder) of(cl *Client) *clientTrace {
	t := rec.traces[cl.Account]
	if t == nil {
		t = &clientTrace{
			sights: map[string][]sighted{}, heard: map[string][]word{}, walks: map[string]map[int]torus.Pos{}, stamina: map[int]uint32{},
		}
		rec.traces[cl.Account] = t
	}
	return t
}

// name is what an entity is called: the renaming of ids must be one to one, over the whole run and for all clients.
func (rec *recorder) name(s *client.Seen) string {
	before, known := rec.names[s.ID]
	if id, taken := rec.ids[s.Name]; known && before != s.Name || taken && id != s.ID {
		rec.wrong = fmt.Errorf("entity %v is called %q, before %q; %q was entity %v", s.ID, s.Name, before, s.Name, id)
	}
	rec.names[s.ID], rec.ids[s.Name] = s.Name, s.ID
	return s.Name
}

// look writes down what has changed for every client in this tick.
func (rec *recorder) look() {
	for _, cl := range rec.r.Clients {
		t := rec.of(cl)
		for _, r := range cl.TakeResults() {
			t.results = append(t.results, fmt.Sprintf("%d %v", r.Number, r.Code))
		}
		if rec.clocks[cl].tick != cl.Tick {
			rec.clocks[cl] = gatewayClock{cl.Tick, rec.r.ticks}
		}
		if rec.begun[cl] = rec.begun[cl] || len(cl.Chunks) >= sceneView; rec.begun[cl] {
			rec.sights(cl, t)
		}
		if rec.r.ticks%10 == 0 {
			rec.sample(cl, t)
		}
	}
}

// sample writes down where everything is in the client's eyes, and how it is itself.
func (rec *recorder) sample(cl *Client, t *clientTrace) {
	for _, id := range sortedEntities(&cl.Model) {
		t.walked(rec.name(cl.Entities[id]), rec.r.ticks, rec.at(cl, cl.Entities[id]))
	}
	if own := cl.Own(); own != nil && own.Stamina != nil {
		t.stamina[rec.r.ticks] = own.Stamina.Current
	}
}

// sceneView is how many chunks a client sees. When it enters the world they come a few at a time, and who walks from one
// that is there into one that is not is gone for a moment.
const sceneView = (2*partition.ViewRadius + 1) * (2*partition.ViewRadius + 1)

// sights compares what the client sees with what it saw a tick before. An entity that vanished and appeared within the
// tick is another Seen.
func (rec *recorder) sights(cl *Client, t *clientTrace) {
	before := rec.seen[cl]
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if s := before[id]; cl.Entities[id] != s {
			rec.sight(cl, t, s, false)
			delete(before, id)
		}
	}
	for _, id := range sortedEntities(&cl.Model) {
		if s := cl.Entities[id]; before[id] == nil {
			rec.sight(cl, t, s, true)
			if before == nil {
				before = map[ecs.EntityID]*client.Seen{}
				rec.seen[cl] = before
			}
			before[id] = s
		}
	}
}

func (rec *recorder) sight(cl *Client, t *clientTrace, s *client.Seen, appears bool) {
	far := false
	if own := cl.Own(); own != nil {
		a, b := cl.Grid.ChunkOf(cl.At(own, cl.Tick)), cl.Grid.ChunkOf(cl.At(s, cl.Tick))
		far = cl.Grid.ChunkChebyshev(a, b) >= partition.ViewRadius
	}
	name := rec.name(s)
	t.sights[name] = append(t.sights[name], sighted{rec.r.ticks, appears, far})
}

// at is where a client sees an entity now, shifted back.
func (rec *recorder) at(cl *Client, s *client.Seen) torus.Pos {
	now := rec.clocks[cl].tick + uint64(rec.r.ticks-rec.clocks[cl].at)
	return rec.r.Grid.Add(cl.At(s, now), -rec.r.Plan.ShiftX, -rec.r.Plan.ShiftY)
}

func (t *clientTrace) walked(name string, tick int, at torus.Pos) {
	if t.walks[name] == nil {
		t.walks[name] = map[int]torus.Pos{}
	}
	t.walks[name][tick] = at
}

// finish writes down where everything stands in the end. The error is a name that was not one entity's.
func (rec *recorder) finish() error {
	for _, cl := range rec.r.Clients {
		rec.look()
		t := rec.of(cl)
		t.final = map[string]torus.Pos{}
		for _, id := range sortedEntities(&cl.Model) {
			t.final[rec.name(cl.Entities[id])] = rec.at(cl, cl.Entities[id])
		}
	}
	return rec.wrong
}

// lag is the largest difference that was met and allowed.
type lag struct {
	ticks  int
	metres int64
}

// diff compares two traces of a client.
type diff struct {
	want, got *clientTrace
	deaf      []span
	worst     *lag
	out       []string
}

// lines says what differs, the earliest kinds of trouble first.
func (d *diff) lines() []string {
	if !slices.Equal(d.want.results, d.got.results) {
		d.say("got the results %v, want %v", d.got.results, d.want.results)
	}
	d.stamina()
	for _, name := range union(d.want.sights, d.got.sights) {
		if a, b := d.want.sights[name], d.got.sights[name]; !d.alike(a, b) {
			d.say("sees how %s %v, want %v", name, b, a)
		}
		d.words(name)
		d.walk(name)
	}
	for _, name := range union(d.want.final, d.got.final) {
		a, wanted := d.want.final[name]
		b, seen := d.got.final[name]
		switch {
		case !seen:
			d.say("does not see %s in the end, want it at %v", name, a)
		case !wanted:
			d.say("sees %s in the end at %v, want it out of sight", name, b)
		case a != b:
			d.say("sees %s in the end at %v, want it at %v", name, b, a)
		}
	}
	return d.out
}

func (d *diff) say(format string, args ...any) { d.out = append(d.out, fmt.Sprintf(format, args...)) }

// near reports whether two ticks are as good as the same.
func (d *diff) near(a, b int) bool {
	n := max(a-b, b-a)
	if n <= slackTicks {
		d.worst.ticks = max(d.worst.ticks, n)
	}
	return n <= slackTicks
}

// alike reports whether two lists of appearances and vanishes are the same up to slack. What comes into sight or leaves it
// at the edge for a moment may do so on one side only.
func (d *diff) alike(a, b []sighted) bool {
	switch {
	case len(a) == 0 && len(b) == 0:
		return true
	case len(a) > 0 && len(b) > 0 && a[0].appears == b[0].appears && d.told(a[0], b[0]) && d.alike(a[1:], b[1:]):
		return true
	}
	return moment(a) && d.alike(a[2:], b) || moment(b) && d.alike(a, b[2:])
}

func moment(s []sighted) bool {
	return len(s) >= 2 && s[0].far && s[1].far && s[1].tick-s[0].tick <= edgeTicks
}

// words compares what was heard of one speaker. What is said while the speaker comes or goes, or while the client has no
// socket, may be heard on one side only.
func (d *diff) words(speaker string) {
	doubtful := map[string]bool{}
	for _, w := range slices.Concat(d.want.heard[speaker], d.got.heard[speaker]) {
		doubtful[w.text] = doubtful[w.text] || d.silent(w.tick) || d.comesOrGoes(speaker, w.tick)
	}
	sure := func(words []word) []word {
		return slices.DeleteFunc(slices.Clone(words), func(w word) bool { return doubtful[w.text] })
	}
	a, b := sure(d.want.heard[speaker]), sure(d.got.heard[speaker])
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a) || i >= len(b) || a[i].text != b[i].text:
			d.say("hears %s say %v, want %v", speaker, b, a)
			return
		case !d.near(a[i].tick, b[i].tick):
			d.say("hears %s say %q at %d, want it at %d", speaker, a[i].text, b[i].tick, a[i].tick)
		}
	}
}

// told reports whether a client may have been told the same thing at two ticks: they are near; it happened at the edge of
// what it sees; or it was told on one side before its socket was lost and on the other with the full set after that.
func (d *diff) told(a, b sighted) bool {
	edge := a.far && b.far && max(a.tick-b.tick, b.tick-a.tick) <= edgeTicks
	return edge || d.near(a.tick, b.tick) || slices.ContainsFunc(d.deaf, func(s span) bool { return s.about(a.tick) && s.about(b.tick) })
}

// silent reports whether the client may have no socket at a tick, or may not have got its full set after that.
func (d *diff) silent(tick int) bool {
	return slices.ContainsFunc(d.deaf, func(s span) bool { return s.about(tick) })
}

// comesOrGoes reports whether an entity appears or vanishes about a tick, on either side.
func (d *diff) comesOrGoes(name string, tick int) bool {
	about := func(s sighted) bool {
		n := max(tick-s.tick, s.tick-tick)
		return n <= slackTicks || s.far && n <= edgeTicks
	}
	return slices.ContainsFunc(d.want.sights[name], about) || slices.ContainsFunc(d.got.sights[name], about)
}

// walk compares where an entity was seen while both saw it.
func (d *diff) walk(name string) {
	for _, tick := range slices.Sorted(maps.Keys(d.want.walks[name])) {
		a := d.want.walks[name][tick]
		b, seen := d.got.walks[name][tick]
		if !seen || d.silent(tick) {
			continue
		}
		metres := max(a.X-b.X, b.X-a.X, a.Y-b.Y, b.Y-a.Y)
		if metres > slackMetres {
			d.say("sees %s at tick %d at %v, want it at %v", name, tick, b, a)
			return
		}
		d.worst.metres = max(d.worst.metres, metres)
	}
}

func (d *diff) stamina() {
	for _, tick := range slices.Sorted(maps.Keys(d.want.stamina)) {
		a, b := int(d.want.stamina[tick]), int(d.got.stamina[tick])
		if _, known := d.got.stamina[tick]; known && !d.silent(tick) && max(a-b, b-a) > slackStamina {
			d.say("has stamina %d at tick %d, want %d", b, tick, a)
			return
		}
	}
}

func union[A, B any](a map[string]A, b map[string]B) []string {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}
