package simtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spatialcells/spatialcells/node/ecs"
	"github.com/spatialcells/spatialcells/node/torus"
	"github.com/spatialcells/spatialcells/node/zone"
)

// What scripts show. All of it is in an order that does not depend on the run: by entity as the trace met them, by node, by
// region. Places are rounded, so that a script tells where somebody is and not how many ticks it walked.

// called names an entity, and whose it is.
func (s *script) called(id ecs.EntityID) string {
	for _, cl := range s.Clients {
		if cl.Welcome != nil && ecs.EntityID(cl.Welcome.Entity) == id {
			return fmt.Sprintf("%s of account %d", s.Cluster.trace.name(id), cl.Account)
		}
	}
	return s.Cluster.trace.name(id)
}

// met are all entities with a name, in the order of their names.
func (s *script) met() []ecs.EntityID {
	names := s.Cluster.trace.names
	return slices.SortedFunc(maps.Keys(names), func(a, b ecs.EntityID) int {
		if d := len(names[a]) - len(names[b]); d != 0 {
			return d
		}
		return strings.Compare(names[a], names[b])
	})
}

// entities tells who acts for each entity, who holds it frozen, and who keeps it until it is durable.
func (s *script) entities() string {
	var b strings.Builder
	for _, id := range s.met() {
		var copies []string
		for _, n := range s.Nodes {
			if n.Engine != nil {
				copies = append(copies, s.copiesAt(n, id)...)
			}
		}
		if copies == nil {
			copies = []string{"nobody has it"}
		}
		fmt.Fprintf(&b, "%s: %s\n", s.called(id), strings.Join(copies, "; "))
	}
	return b.String()
}

func (s *script) copiesAt(n *Node, id ecs.EntityID) (copies []string) {
	who := short(n.Session())
	n.Engine.EachEntity(func(e zone.Entity) {
		if e.ID != id {
			return
		}
		does := "acts"
		switch {
		case !e.Acting:
			does = "holds it frozen"
		case !n.Acts():
			does = "is fenced with it"
		}
		copies = append(copies, fmt.Sprintf("%s %s @%d.%d home %v at about %v", who, does, e.Epoch.Recoveries, e.Epoch.Transfers, e.Home, s.about(e.At)))
	})
	n.Engine.EachOffer(func(offered ecs.EntityID, epoch zone.Epoch) {
		if offered == id {
			copies = append(copies, fmt.Sprintf("%s keeps what it gave away @%d.%d", who, epoch.Recoveries, epoch.Transfers))
		}
	})
	return copies
}

func short(session string) string { return strings.ReplaceAll(session, World+"-zone-", "node ") }

// about rounds a place to 20 m.
func (s *script) about(p torus.Pos) torus.Pos {
	return s.Grid.Wrap(torus.Pos{X: (p.X + 10) / 20 * 20, Y: (p.Y + 10) / 20 * 20})
}

// records tells what the store has.
func (s *script) records() string {
	var b strings.Builder
	for _, id := range s.met() {
		r, found := s.Cluster.storage.record(id)
		switch {
		case !found:
			fmt.Fprintf(&b, "%s: no record\n", s.called(id))
		case r.Resting:
			fmt.Fprintf(&b, "%s: @%d.%d home %v, at rest\n", s.called(id), r.Epoch.Recoveries, r.Epoch.Transfers, r.Home)
		default:
			fmt.Fprintf(&b, "%s: @%d.%d home %v\n", s.called(id), r.Epoch.Recoveries, r.Epoch.Transfers, r.Home)
		}
	}
	return b.String()
}

// table tells who holds each region, and whether it is recovered there.
func (s *script) table() string {
	var b strings.Builder
	for i := range s.Grid.Regions() {
		holder := s.control.holder(i)
		fmt.Fprintf(&b, "region %v: ", s.Grid.RegionAt(i))
		state := "nobody"
		for _, n := range s.Nodes {
			switch {
			case holder == "" || n.Session() != holder:
			case n.Engine == nil:
				state = short(holder) + ", which is dead"
			case n.Engine.RegionActive(i):
				state = short(holder)
			default:
				state = short(holder) + ", not recovered"
			}
		}
		if holder != "" && state == "nobody" {
			state = short(holder) + ", which is over"
		}
		b.WriteString(state + "\n")
	}
	return b.String()
}

// subscriptions tells how many chunks each node observes at each other, and how many that one counts.
func (s *script) subscriptions() string {
	var b strings.Builder
	for _, observer := range s.Nodes {
		for _, owner := range s.Nodes {
			if observer.Engine == nil || owner.Engine == nil {
				continue
			}
			wants, has := observer.Engine.Observes(owner.Session()), owner.Engine.ObservedBy(observer.Session())
			if len(wants) == 0 && len(has) == 0 {
				continue
			}
			fmt.Fprintf(&b, "%s observes %d chunks at %s, which counts ", short(observer.Session()), len(wants), short(owner.Session()))
			if slices.Equal(wants, has) {
				b.WriteString("the same\n")
			} else {
				fmt.Fprintf(&b, "%d\n", len(has))
			}
		}
	}
	return b.String()
}

// sees tells what a client has in sight.
func (s *script) sees() string {
	var b strings.Builder
	cl := s.latest(s.num("account", 0))
	fmt.Fprintf(&b, "account %d at %s: ", cl.Account, short(cl.Node.Session()))
	switch {
	case !cl.Open:
		b.WriteString("its socket is lost")
	case cl.Welcome == nil || cl.Welcome == cl.before:
		b.WriteString("not welcomed")
	case !cl.Complete:
		b.WriteString("its set is not complete")
	default:
		b.WriteString("its set is complete")
	}
	fmt.Fprintf(&b, ", %d chunks, told of %d resyncs\n", len(cl.Chunks), cl.Resyncs)
	for _, id := range s.met() {
		if e := cl.Entities[id]; e != nil {
			fmt.Fprintf(&b, "  %s at about %v, %d marks\n", s.called(id), s.about(cl.At(e, cl.Tick)), e.Marks)
		}
	}
	for _, v := range cl.TakeVanished() {
		fmt.Fprintf(&b, "  no more: %s, %v\n", s.called(v.Entity), v.Reason)
	}
	return b.String()
}

// showResults tells which inputs were answered since it was asked for last.
func (s *script) showResults() string { return s.taken(&s.results) }

// showHeard tells what was heard since it was asked for last.
func (s *script) showHeard() string { return s.taken(&s.heard) }

// taken are the lines about an account that gathered, which are forgotten.
func (s *script) taken(lines *[]string) string {
	var b strings.Builder
	prefix := fmt.Sprintf("account %d", s.num("account", 0))
	*lines = slices.DeleteFunc(*lines, func(line string) bool {
		if rest, is := strings.CutPrefix(line, prefix); is && (rest[0] == ' ' || rest[0] == ':') {
			b.WriteString(line + "\n")
			return true
		}
		return false
	})
	return b.String()
}

// showCounts tells how often transitions were taken, by node, since it was asked for last.
func (s *script) showCounts() string {
	var b strings.Builder
	for _, line := range slices.Sorted(maps.Keys(s.counts)) {
		if _, point, _ := strings.Cut(line, ": "); strings.HasPrefix(point, s.text("points")) {
			fmt.Fprintf(&b, "%s %d times\n", line, s.counts[line])
		}
	}
	clear(s.counts)
	return b.String()
}

// checked says that no invariant was broken: the checker looked at every tick.
func (s *script) checked() string {
	if s.Cluster.check.first != nil {
		s.must(s.Cluster.check.first)
	}
	return "ok\n"
}
