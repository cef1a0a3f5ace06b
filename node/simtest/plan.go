package simtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// Plan is all that is decided before a run: the world, its players, and what they and the world do, tick by tick. A run is a
// function of its plan, so a plan can be cut down.
type Plan struct {
	Seed                    uint64
	Columns, Rows, Nodes    int
	Owners                  []int // node by region
	LinkDelay, LinkJitter   time.Duration
	StoreDelay              time.Duration
	Rates                   []float64
	Nasty                   bool
	Operators               int
	Teams                   map[uint64]int // bestias by account
	ShiftX, ShiftY          int64          // of every place, in metres
	Ticks                   int
	Actions                 []Action
	EdgeChunks, SettleTicks int
}

// Action is one thing that somebody or something does at a tick. What cannot be done then is left out.
type Action struct {
	At   int
	Verb string
	Args []int64
}

// verbs are the actions and what their arguments mean. "for" is in ticks. "when" waits for the nth time that a node (-1: any)
// takes a transition, and does a class of faults then, see triggers.
var verbs = map[string][]string{
	"login": {"account", "node", "x", "y"}, "resume": {"account", "node"}, "drop": {"account"}, "logout": {"account"},
	"walk": {"account", "x", "y"}, "say": {"account"}, "recall": {"account"}, "chatter": {"account", "for"},
	"tinker": {"account", "for"},

	"when": {"point", "nth", "do", "for", "node", "peer", "much"},

	"cut": {"a", "b", "for"}, "oneway": {"a", "b", "for"}, "slow": {"a", "b", "factor", "for"}, "reset": {"a", "b"},

	"kill": {"node", "for", "newpod"}, "crash": {"node", "point", "nth", "parts", "for", "newpod"},
	"pause": {"node", "for"}, "stall": {"node", "for"}, "fence": {"node", "for"}, "outlive": {"node", "for"},

	"cutapi": {"node", "for"}, "outage": {"for"}, "apierrors": {"percent", "for"}, "lag": {"ms", "for"},
	"deletelease": {"node"}, "deleteregion": {"region"}, "order": {"region", "node"}, "move": {"region", "node"}, "forget": {"region"},

	"storeaway": {"for"}, "storecut": {"node", "for"}, "storefull": {"for"}, "storereadonly": {"for"}, "storeslow": {"factor", "for"},
	"storetimeouts": {"percent", "for"}, "failover": {"slot"}, "failoverall": {}, "rewind": {"ms"},
	"storelost": {}, "outbid": {"region", "by"},
}

// arg is the value of an argument by its name.
func (a Action) arg(name string) int64 {
	for i, n := range verbs[a.Verb] {
		if n == name {
			return a.Args[i]
		}
	}
	panic("simtest: " + a.Verb + " has no argument " + name)
}

// String is the action as a line.
func (a Action) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %d %s", a.At, a.Verb)
	for i, name := range verbs[a.Verb] {
		switch name {
		case "point":
			fmt.Fprintf(&b, " point=%q", zone.Point(a.Args[i]))
		case "do":
			fmt.Fprintf(&b, " do=%q", Fault(a.Args[i]))
		default:
			fmt.Fprintf(&b, " %s=%d", name, a.Args[i])
		}
	}
	return b.String()
}

// String is the plan for people.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world %dx%d regions of %d chunks, %d nodes, owners %v, link %v + %v, store %v, clocks %v, nasty %v, operators %d, %d ticks, shift %d,%d\n",
		p.Columns, p.Rows, p.EdgeChunks, p.Nodes, p.Owners, p.LinkDelay, p.LinkJitter, p.StoreDelay, p.Rates, p.Nasty, p.Operators, p.Ticks, p.ShiftX, p.ShiftY)
	for account := uint64(1); account <= maxPlayers; account++ {
		if n := p.Teams[account]; n > 0 {
			fmt.Fprintf(&b, "account %d has %d bestias\n", account, n)
		}
	}
	for _, a := range p.Actions {
		b.WriteString(a.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// losesStore reports whether an action lets the store come back empty, or may, as only the development store does, or without its
// last moments: one that forgets what it has acknowledged takes with it what nobody holds, and nodes put back what they can.
func losesStore(a Action) bool {
	return a.Verb == "rewind" || a.Verb == "storelost" || a.Verb == "when" && Fault(a.arg("do")) == faultStoreLost
}

// maxPlayers bounds the accounts of a plan: 1 to maxPlayers.
const maxPlayers = 64

// options are those of the plan's cluster.
func (p *Plan) options() Options {
	return Options{
		Columns: p.Columns, Rows: p.Rows, RegionEdgeChunks: p.EdgeChunks, Nodes: p.Nodes,
		Owner:     func(region int) int { return p.Owners[region] % p.Nodes },
		LinkDelay: p.LinkDelay, LinkJitter: p.LinkJitter, StoreDelay: p.StoreDelay, Seed: p.Seed, Rates: p.Rates,
		Nasty: p.Nasty, Operators: p.Operators,
	}
}
