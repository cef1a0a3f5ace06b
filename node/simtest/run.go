package simtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/simtest/leases"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// Run is a plan that is carried out.
type Run struct {
	*Cluster
	Plan *Plan

	back    map[*Client]int // tick at which a player whose socket is lost comes back
	left    map[*Client]bool
	ends    map[string]int // faults that are going on, by name: how many times
	weather leases.Weather
	next    int
	habits  map[*Client]habit
	dice    *rand.Rand // of those who tinker
}

// NewRun prepares a plan's world. Nothing has happened yet.
func NewRun(p *Plan) (*Run, error) {
	o := p.options()
	var err error
	if o.Records, err = p.records(); err != nil {
		return nil, err
	}
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &Run{Cluster: c, Plan: p, back: map[*Client]int{}, left: map[*Client]bool{}, ends: map[string]int{}, dice: rand.New(rand.NewPCG(p.Seed, 11))}, nil
}

// Execute carries out the whole plan, then ends all faults and waits for the world to settle. The error is a *Broken.
func (r *Run) Execute() error {
	if err := r.Until(r.Plan.Ticks); err != nil {
		return err
	}
	return r.Settle()
}

// Until carries out the plan up to a tick.
func (r *Run) Until(tick int) error {
	for r.ticks < tick {
		for r.next < len(r.Plan.Actions) && r.Plan.Actions[r.next].At <= r.ticks {
			r.Do(r.Plan.Actions[r.next])
			r.next++
		}
		if err := r.pass(); err != nil {
			return err
		}
	}
	return nil
}

// pass lets a tick pass.
func (r *Run) pass() error {
	r.comeBack()
	r.talk()
	r.tinker()
	err := r.Run(1)
	r.faults.loss.look()
	return err
}

// Do carries out one action now; what cannot be done is left out.
func (r *Run) Do(a Action) {
	switch a.Verb {
	case "login", "resume", "drop", "logout", "walk", "say", "recall", "chatter", "tinker":
		r.player(a)
	case "when":
		r.when(a)
	case "cut", "oneway", "slow", "reset":
		r.link(a)
	case "kill", "crash", "pause", "stall", "fence", "outlive":
		r.process(a)
	case "storeaway", "storecut", "storefull", "storereadonly", "storeslow", "storetimeouts", "failover", "failoverall", "rewind", "storelost", "outbid":
		r.storage(a)
	default:
		r.kubernetes(a)
	}
}

func (r *Run) at(a Action, x, y string) torus.Pos {
	return r.Grid.Wrap(torus.Pos{X: a.arg(x) + r.Plan.ShiftX, Y: a.arg(y) + r.Plan.ShiftY})
}

func (r *Run) node(a Action, name string) *Node { return r.Nodes[int(a.arg(name))%len(r.Nodes)] }

// player carries out what a player does.
func (r *Run) player(a Action) {
	cl := r.byAccount(uint64(a.arg("account")))
	if a.Verb == "login" {
		r.enter(a, cl)
		return
	}
	if cl == nil {
		return
	}
	if a.Verb == "resume" {
		if n := r.node(a, "node"); !cl.Open && cl.Welcome != nil && n.Engine != nil {
			r.Resume(cl, n)
		}
		return
	}
	if a.Verb == "drop" && cl.Open {
		r.faults.strike(r.Cluster, faultSocket)
		r.Close(cl)
	}
	if !cl.Open || cl.Own() == nil {
		return
	}
	switch a.Verb {
	case "logout":
		r.left[cl] = true
		r.Logout(cl)
	case "walk":
		to := r.at(a, "x", "y")
		r.habit(cl, func(h *habit) { h.to, h.walks = to, true })
		r.WalkTo(cl, to)
	case "say":
		r.SayNumber(cl)
	case "chatter":
		r.habit(cl, func(h *habit) { h.talksUntil = r.ticks + int(a.arg("for")) })
	case "tinker":
		r.check.handlesItems = true
		r.habit(cl, func(h *habit) { h.tinkersUntil = r.ticks + int(a.arg("for")) })
	case "recall":
		r.Send(cl, &wire.Input{Action: &wire.Input_Recall{Recall: &wire.Recall{}}})
	}
}

// SayNumber lets a player say the number of its input, by which those who hear it are checked.
func (r *Run) SayNumber(cl *Client) {
	if cl.Welcome == cl.before || cl.Unanswered() >= 16 {
		return
	}
	r.Send(cl, sayOf(cl, cl.number+1))
}

// habit is what a player goes on with.
type habit struct {
	to         torus.Pos // where it was sent last
	walks      bool
	talksUntil int // tick

	tinkersUntil int
}

func (r *Run) habit(cl *Client, change func(*habit)) {
	if r.habits == nil {
		r.habits = map[*Client]habit{}
	}
	h := r.habits[cl]
	change(&h)
	r.habits[cl] = h
}

// talk lets those who chatter say something in each tick, and set out for the same place three times in a row in each
// second: their bestias are told to follow each time.
func (r *Run) talk() {
	for _, cl := range r.Clients {
		h := r.habits[cl]
		if r.ticks >= h.talksUntil || !cl.Open || cl.Own() == nil {
			continue
		}
		r.SayNumber(cl)
		if h.walks && r.ticks%20 < 3 && cl.Unanswered() < 12 {
			r.WalkTo(cl, h.to)
		}
	}
}

// enter logs a player in, again or for the first time.
func (r *Run) enter(a Action, cl *Client) {
	n, at := r.node(a, "node"), r.at(a, "x", "y")
	switch {
	case n.Engine == nil && cl == nil:
		cl = &Client{Account: uint64(a.arg("account")), Node: n}
		r.Clients = append(r.Clients, cl)
	case n.Engine == nil:
	case cl == nil:
		r.Login(n, uint64(a.arg("account")), &at)
	default:
		cl.NextConnection()
		delete(r.left, cl)
		r.login(cl, n, &at)
	}
}

// Players whose socket is lost come back by themselves, after a while that depends on the account only.
const comeBackTicks = 20

func (r *Run) comeBack() {
	for _, cl := range r.Clients {
		if cl.Open {
			delete(r.back, cl)
			continue
		}
		due, known := r.back[cl]
		switch {
		case !known:
			r.faults.strike(r.Cluster, faultSocket)
			due = r.ticks + comeBackTicks + int(cl.Account*7)%comeBackTicks
			if r.left[cl] {
				due += 10 * comeBackTicks
			}
			r.back[cl] = due
		case r.ticks >= due:
			r.reconnect(cl)
		}
	}
}

func (r *Run) reconnect(cl *Client) {
	n := r.someNode(int(cl.Account) + r.ticks)
	if n == nil {
		return
	}
	delete(r.back, cl)
	if cl.Welcome != nil && !r.left[cl] {
		r.Resume(cl, n)
		return
	}
	delete(r.left, cl)
	cl.NextConnection()
	at := r.Grid.Wrap(torus.Pos{X: int64(cl.Account)*17 + r.Plan.ShiftX, Y: int64(cl.Account)*13 + r.Plan.ShiftY})
	r.login(cl, n, &at)
}

// someNode is a running node, the one of that number or the next.
func (r *Run) someNode(i int) *Node {
	for range r.Nodes {
		if n := r.Nodes[i%len(r.Nodes)]; n.Engine != nil && !n.paused {
			return n
		}
		i++
	}
	return nil
}

// during lets a fault go on for some ticks. Faults of one name may overlap: the first begins, the last ends it.
func (r *Run) during(class Fault, name string, ticks int64, begin, end func()) {
	r.faults.begin(r.Cluster, class)
	if r.ends[name]++; r.ends[name] == 1 {
		r.say("%s begins", name)
		begin()
	}
	r.After(time.Duration(ticks)*zone.TickDuration, func() {
		r.faults.end(r.Cluster, class)
		if r.ends[name]--; r.ends[name] == 0 {
			r.say("%s ends", name)
			end()
		}
	})
}

func (r *Run) link(a Action) {
	x, y := r.node(a, "a"), r.node(a, "b")
	if x == y || x.Engine == nil || y.Engine == nil {
		return
	}
	name := fmt.Sprintf("%s of %s and %s", a.Verb, x.Session(), y.Session())
	l, _ := r.net.link(x, y)
	switch a.Verb {
	case "cut":
		r.during(faultCut, name, a.arg("for"), func() { r.Cut(x, y) }, func() { r.net.mend(l) })
	case "oneway":
		r.during(faultOneWay, name, a.arg("for"), func() { r.Block(x, y) }, func() { r.net.mend(l) })
	case "slow":
		r.during(faultSlow, name, a.arg("for"), func() { r.Slow(x, y, r.slowly(a.arg("factor"))) }, func() { l.slow = 1 })
	case "reset":
		r.faults.strike(r.Cluster, faultCut)
		r.Reset(x, y)
	}
}

// slowest bounds how long a message takes on a slow link of a plan, in its world's worst case. News older than that are a
// second's walk behind when they come, and players see the jump, as they would on a line of their own that is so bad.
const slowest = 800 * time.Millisecond

func (r *Run) slowly(factor int64) int {
	return int(max(min(factor, int64(slowest/(r.options.LinkDelay+r.options.LinkJitter))), 1))
}

func (r *Run) process(a Action) {
	n := r.node(a, "node")
	if n.Engine == nil {
		return
	}
	session := n.Session()
	again := func(ended func(*Node)) {
		if n.Engine != nil && n.Session() == session {
			ended(n)
		}
	}
	ticks := a.arg("for")
	switch a.Verb {
	case "outlive": // it is stopped in the middle of its step until its deadline has passed
		ticks += 1 + int64((n.deadline()-n.clock.Boottime())/zone.TickDuration)
		r.during(faultFenced, "stall of "+session, ticks, func() { n.stall = true }, func() {
			again(func(n *Node) { n.stall = false; r.Pause(n, false) })
		})
	case "kill":
		r.faults.strike(r.Cluster, faultKilled)
		r.Kill(n)
		r.restart(n, ticks, a.arg("newpod") != 0)
	case "crash":
		r.Trap(n, zone.Point(a.arg("point")), int(a.arg("nth")), parts(a.arg("parts")), func() { r.restart(n, ticks, a.arg("newpod") != 0) })
	case "pause":
		r.during(faultPaused, "pause of "+session, ticks, func() { r.Pause(n, true) }, func() { again(func(n *Node) { r.Pause(n, false) }) })
	case "stall":
		r.during(faultStalled, "stall of "+session, ticks, func() { n.stall = true }, func() {
			again(func(n *Node) { n.stall = false; r.Pause(n, false) })
		})
	case "fence":
		r.during(faultFenced, "fence of "+session, ticks, func() { n.Fenced, n.Deadline = true, n.clock.Boottime() }, func() {
			again(func(n *Node) { n.Fenced = false })
		})
	}
}

// restart starts a process again some ticks after its end, in the same pod or a new one.
func (r *Run) restart(n *Node, ticks int64, newPod bool) {
	dead := n.Session()
	k, nasty := r.control.(*kube)
	if nasty && newPod {
		r.say("the pod of %s is gone", n.name())
		k.api.PodDied(n.Ordinal)
	}
	r.After(time.Duration(ticks)*zone.TickDuration, func() {
		if newPod {
			n.pods++
		}
		if err := r.Start(n); err != nil {
			panic("simtest: " + err.Error())
		}
		if !nasty {
			r.Revoke(dead, r.someNode(n.Ordinal+1))
		}
	})
}

func (r *Run) kubernetes(a Action) {
	k, ok := r.control.(*kube)
	if !ok {
		return
	}
	weather := func(change func(*leases.Weather)) func() {
		return func() { change(&r.weather); k.api.SetWeather(r.weather) }
	}
	switch a.Verb {
	case "cutapi":
		n := r.node(a, "node")
		r.during(faultNodeCut, "cut of "+n.name()+" from the API", a.arg("for"),
			func() { k.api.CutNode(n.Ordinal, true) }, func() { k.api.CutNode(n.Ordinal, false) })
	case "outage":
		r.during(faultAPIAway, "API outage", a.arg("for"), func() { k.api.SetOutage(true) }, func() { k.api.SetOutage(false) })
	case "apierrors":
		share := float64(a.arg("percent")) / 400
		r.during(faultAPIErrors, "API errors", a.arg("for"),
			weather(func(w *leases.Weather) {
				w.Stuck, w.Mute, w.Refuse409, w.Fail500, w.Slow = share/2, share, share, share, share
			}),
			weather(func(w *leases.Weather) { *w = leases.Weather{Lag: w.Lag} }))
	case "lag":
		r.during(faultWatchLag, "watch lag", a.arg("for"),
			weather(func(w *leases.Weather) { w.Lag = time.Duration(a.arg("ms")) * time.Millisecond }),
			weather(func(w *leases.Weather) { w.Lag = 0 }))
	case "deletelease":
		r.faults.strike(r.Cluster, faultLeaseDeleted)
		r.say("the session Lease of %s is deleted", r.node(a, "node").name())
		k.api.DeleteLease(r.node(a, "node").name())
	case "deleteregion":
		r.faults.strike(r.Cluster, faultLeaseDeleted)
		region := int(a.arg("region")) % r.Grid.Regions()
		r.say("the Lease of region %v is deleted", r.Grid.RegionAt(region))
		k.api.DeleteLease(regionLease(r.Grid.RegionAt(region)))
	case "forget":
		r.faults.strike(r.Cluster, faultLeaseDeleted)
		region := int(a.arg("region")) % r.Grid.Regions()
		r.say("the Lease of region %v is deleted, and the operators start anew", r.Grid.RegionAt(region))
		for i := range max(r.Plan.Operators, 1) {
			k.api.RestartOperator(i)
		}
		k.api.DeleteLease(regionLease(r.Grid.RegionAt(region)))
	case "move":
		k.api.Move(int(a.arg("region"))%r.Grid.Regions(), r.node(a, "node").Ordinal)
	case "order":
		k.api.Order(int(a.arg("region"))%r.Grid.Regions(), r.node(a, "node").Ordinal)
	}
}
