package simtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// TestScript plays the situations in testdata: a command, "----", and all that happened because of it. Each line of a trace
// begins with the ticks since its command. What the verbs of a plan do, they do here, with their arguments by name; without
// for= a fault goes on until it is ended. The others:
//
//	world columns= rows= nodes= owners=( , ) link= jitter= store= nasty seed=    the world; stock comes before it
//	stock account= bestias= x= y=       a master at rest and its bestias are in the store
//	login account= node= x= y= again    again: by a second client, while the first is still there
//	run ticks=                          quiet: without the trace
//	until <what> ticks= account= node=  until a transition, or settled: nothing is kept, owed or on its way
//	show points=( , )                   these are in the trace, too, which leaves them out otherwise
//	revoke node= heir= unaware=         the last life of a node that ended is declared dead, another gets its regions;
//	                                    the table does not reach who is unaware before aware node=
//	order region= node=                 the region is to move to that node
//	start, goes-on, renew node=         a process is started, a paused one goes on, a fenced one renews its session again
//	mend a= b=                          ends cut, oneway and slow
//	store-delay is=, store-forgets      the store answers that late; the store loses everything
//	entities, store, table, subscriptions, sees, results, heard, counts, check    what there is; counts points=<prefix>
//
// go test ./node/simtest -run Script -rewrite records all traces anew: read what changed.
func TestScript(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{counts: map[string]int{}}
		datadriven.RunTest(t, path, s.command)
		if s.last != "check" {
			t.Errorf("%s does not end with check", path)
		}
	})
}

// script is a world that is told what to do line by line.
type script struct {
	*Run
	d        *datadriven.TestData
	t        *testing.T
	stocks   []Action
	began    time.Duration
	happened []occurrence // since the last command began
	counts   map[string]int
	heard    []string
	results  []string
	last     string
}

// occurrence is a transition at a node.
type occurrence struct {
	n *Node
	zone.Happened
}

func (s *script) command(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	s.t, s.d, s.last = t, d, d.Cmd
	if s.Run == nil {
		return s.before()
	}
	s.began, s.happened = s.Now(), nil
	if d.Cmd != "check" && d.Cmd != "login" { // a displaced client is seen for one command
		s.Clients = slices.DeleteFunc(s.Clients, func(cl *Client) bool { return cl.Closed != nil && s.latest(int64(cl.Account)) != cl })
	}
	if show := s.shows(); show != nil {
		return show()
	}
	s.act()
	return s.trace()
}

// shows is what a command shows, nil if it does something.
func (s *script) shows() func() string {
	return map[string]func() string{
		"entities": s.entities, "store": s.records, "table": s.table, "subscriptions": s.subscriptions, "sees": s.sees,
		"results": s.showResults, "heard": s.showHeard, "counts": s.showCounts, "check": s.checked,
	}[s.d.Cmd]
}

// before takes what comes before there is a world.
func (s *script) before() string {
	switch s.d.Cmd {
	case "stock":
		s.stocks = append(s.stocks, Action{Args: []int64{s.num("account", 0), s.num("bestias", 0), s.num("x", 0), s.num("y", 0)}})
		return ""
	case "world":
		s.world()
		return s.table()
	}
	s.d.Fatalf(s.t, "there is no world yet")
	return ""
}

const scriptEdge = 15

func (s *script) world() {
	p := &Plan{
		Seed: uint64(s.num("seed", 1)), Columns: int(s.num("columns", 2)), Rows: int(s.num("rows", 1)), Nodes: int(s.num("nodes", 2)),
		EdgeChunks: scriptEdge, LinkDelay: s.duration("link"), LinkJitter: s.duration("jitter"), StoreDelay: s.duration("store"),
		Nasty: s.d.HasArg("nasty"),
	}
	o := p.options()
	if arg, ok := s.d.Arg("owners"); ok {
		for i := range arg.Vals {
			var owner int
			arg.Scan(s.t, i, &owner)
			p.Owners = append(p.Owners, owner)
		}
	} else {
		o.Owner = nil
	}
	g, err := torus.NewGrid(p.Columns, p.Rows, p.EdgeChunks)
	s.must(err)
	for _, a := range s.stocks {
		records, err := stock(g, uint64(a.Args[0]), int(a.Args[1]), g.Wrap(torus.Pos{X: a.Args[2], Y: a.Args[3]}))
		s.must(err)
		o.Records = append(o.Records, records...)
	}
	c, err := New(o)
	s.must(err)
	s.Run = &Run{Cluster: c, Plan: p, back: map[*Client]int{}, left: map[*Client]bool{}, ends: map[string]int{}}
	if !s.run(400, s.recovered) {
		s.d.Fatalf(s.t, "the regions are not recovered:\n%s", s.table())
	}
	s.run(newsTicks, never)
	s.Record().Watch = s.watch
	for _, r := range o.Records { // bestias first: their numbers are known
		s.Cluster.trace.names[r.Entity] = fmt.Sprintf("e%d", len(s.Cluster.trace.names)+1)
	}
}

// recovered reports whether each region has somebody who acts for it.
func (s *script) recovered() bool {
	for i := range s.Grid.Regions() {
		if !slices.ContainsFunc(s.Nodes, func(n *Node) bool { return n.Engine != nil && n.Engine.RegionActive(i) }) {
			return false
		}
	}
	return true
}

func (s *script) watch(n *Node, h zone.Happened) {
	s.happened = append(s.happened, occurrence{n, h})
	s.counts[fmt.Sprintf("%s: %v", strings.ReplaceAll(n.Session(), World+"-zone-", "node "), h.Point)]++
}

// act carries out a command that does something.
func (s *script) act() {
	switch s.d.Cmd {
	case "run":
		s.run(int(s.num("ticks", 1)), never)
	case "until":
		s.until()
	case "settle":
		s.run(newsTicks, never)
		if !s.run(int(s.num("ticks", 2000)), func() bool { return s.unsettled() == nil }) {
			s.d.Fatalf(s.t, "it does not settle: %v", s.unsettled())
		}
	case "show":
		s.show()
	case "store-delay":
		s.Cluster.options.StoreDelay = s.duration("is")
	case "store-forgets":
		s.say("the store has lost everything")
		s.Store = &store.Memory{}
	case "login", "resume", "drop", "logout", "walk", "say", "recall":
		s.play()
	default:
		if _, plain := s.control.(*direct); !plain && !ends[s.d.Cmd] || s.d.HasArg("for") || s.d.Cmd == "reset" {
			s.Do(s.action())
			return
		}
		s.endless()
	}
}

// newsTicks is how long a world takes to notice what was done to it: only then can it be at rest again.
const newsTicks = 10

func never() bool { return false }

// play carries out what a player does.
func (s *script) play() {
	if s.d.HasArg("again") {
		s.Login(s.node("node"), uint64(s.num("account", 0)), nil)
		return
	}
	s.Do(s.action())
}

// action is the command as an action of a plan.
func (s *script) action() Action {
	a := Action{Verb: s.d.Cmd}
	names, known := verbs[a.Verb]
	if !known {
		s.d.Fatalf(s.t, "unknown command")
	}
	for _, name := range names {
		switch name {
		case "point":
			a.Args = append(a.Args, int64(s.point(s.text("point"))))
		case "parts":
			a.Args = append(a.Args, int64(s.parts()))
		case "nth":
			a.Args = append(a.Args, s.num(name, 1))
		default:
			a.Args = append(a.Args, s.num(name, 0))
		}
	}
	return a
}

// ends are the commands that no plan knows, because its faults end by themselves.
var ends = map[string]bool{"mend": true, "goes-on": true, "renew": true, "start": true}

// endless is a fault that goes on until another command ends it, or the end of one.
func (s *script) endless() {
	switch s.d.Cmd {
	case "cut":
		s.Cut(s.node("a"), s.node("b"))
	case "oneway":
		s.Block(s.node("a"), s.node("b"))
	case "slow":
		s.Slow(s.node("a"), s.node("b"), int(s.num("factor", 1)))
	case "mend":
		s.Mend(s.node("a"), s.node("b"))
	case "kill":
		s.Kill(s.node("node"))
	case "crash":
		s.Trap(s.node("node"), s.point(s.text("point")), int(s.num("nth", 1)), s.parts(), nil)
	case "pause":
		s.Pause(s.node("node"), true)
	case "goes-on":
		s.Pause(s.node("node"), false)
	case "fence":
		s.node("node").Fenced, s.node("node").Deadline = true, s.node("node").clock.Boottime()
	case "renew":
		s.node("node").Fenced = false
	case "start":
		s.must(s.Start(s.node("node")))
	case "order":
		row := s.Table().Row(int(s.num("region", 0)))
		row.Target = s.node("node").name()
		s.control.(*direct).publish([]partition.Change{{Region: int(s.num("region", 0)), Row: row}})
	case "revoke":
		s.revoke(s.node("node"))
	case "aware":
		s.node("node").inbox.Table, s.node("node").table = s.Table(), s.Table()
	default:
		s.d.Fatalf(s.t, "unknown command")
	}
}

// revoke declares the last life of a node dead that has ended. Who is unaware of it does not get the new table.
func (s *script) revoke(n *Node) {
	dead := n.Session()
	if n.Running() {
		dead = sessionName(n.Ordinal, n.Incarnation-1)
	}
	before := s.Table()
	s.Revoke(dead, s.node("heir"))
	if s.d.HasArg("unaware") {
		s.node("unaware").inbox.Table, s.node("unaware").table = nil, before
	}
}

// run lets ticks pass until a fact holds. It reports whether it does.
func (s *script) run(ticks int, fact func() bool) bool {
	for range ticks {
		if fact() {
			return true
		}
		s.ticks++
		s.Advance(s.Now() + zone.TickDuration)
		s.askForChunks()
		s.listen()
		s.must(s.Check())
	}
	return fact()
}

// listen notes what clients heard, before the checker takes it.
func (s *script) listen() {
	for _, cl := range s.Clients {
		for _, h := range cl.Heard {
			s.heard = append(s.heard, fmt.Sprintf("account %d heard %s say %q", cl.Account, s.Cluster.trace.name(h.Speaker), h.Text))
		}
		for _, r := range cl.TakeResults() {
			s.results = append(s.results, fmt.Sprintf("account %d: input %d is %v", cl.Account, r.Number, r.Code))
		}
	}
}

func (s *script) until() {
	what, fact := s.d.CmdArgs[0].Key, func() bool { return s.unsettled() == nil }
	if what != "settled" {
		p := s.point(what)
		fact = func() bool {
			return slices.ContainsFunc(s.happened, func(o occurrence) bool { return o.Point == p && s.meant(o) })
		}
	}
	if !s.run(int(s.num("ticks", 400)), fact) {
		s.d.Fatalf(s.t, "not within the ticks; unsettled: %v; trace:\n%s", s.unsettled(), s.trace())
	}
}

// meant reports whether a transition is of the node, account and number that the command names.
func (s *script) meant(o occurrence) bool {
	is := func(name string, v int64) bool { return !s.d.HasArg(name) || s.num(name, 0) == v }
	return is("node", int64(o.n.Ordinal)) && is("account", int64(o.Account)) && is("number", int64(o.Number))
}

// unsettled says what is not at rest, of entities, nodes that run, their subscriptions, and players who are connected.
func (s *script) unsettled() error {
	clients, nodes := s.Clients, s.Nodes
	defer func() { s.Clients, s.Nodes = clients, nodes }()
	s.Clients = slices.DeleteFunc(slices.Clone(clients), func(cl *Client) bool { return !cl.Open })
	s.Nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *Node) bool { return n.Engine == nil })
	for _, cl := range s.Clients {
		if cl.Welcome == cl.before {
			return fmt.Errorf("account %d is not welcomed at %s", cl.Account, cl.Node.Session())
		}
	}
	return s.settled()
}

func (s *script) show() {
	var list []zone.Point
	if arg, ok := s.d.Arg("points"); ok {
		for _, v := range arg.Vals {
			list = append(list, s.point(v))
		}
	}
	s.Cluster.trace.Quiet = func(p zone.Point) bool { return quiet(p) && !slices.Contains(list, p) }
}

// trace is what happened since the command began, each line with its tick.
func (s *script) trace() string {
	lines := s.Cluster.trace.Take()
	if s.d.HasArg("quiet") {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(lines) {
		seconds, err := strconv.ParseFloat(strings.TrimSpace(line[:10]), 64)
		s.must(err)
		since := time.Duration(seconds*1000+0.5)*time.Millisecond - s.began.Round(time.Millisecond)
		fmt.Fprintf(&b, "%4d  %s", since/zone.TickDuration, line[12:])
	}
	return b.String()
}

func (s *script) must(err error) {
	s.t.Helper()
	if err == nil {
		return
	}
	trace := ""
	if s.Run != nil {
		trace = s.trace()
	}
	s.d.Fatalf(s.t, "%v\n%s", err, trace)
}
