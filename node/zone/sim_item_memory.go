package zone

import "slices"

// What a holder remembers of the movements that came to it. An in entry may go when nobody can ask about its movement any more:
// its source was found without an out entry, and a while later still was. The first time alone proves nothing, because the
// source's last write may yet be undone, and copies of the question may be on their way.

const (
	// askTicks is after how long the source of a movement that came is asked for the first time: 2 s. Most are done long before.
	askTicks = 2 * TicksPerSecond
	// rememberTicks is for how long a movement is remembered whose source was found done with it: 20 s, far above what a failover
	// of the store takes back.
	rememberTicks = 20 * TicksPerSecond
	// maxSources bounds the sources that a holder asks at the same time, maxAsked the movements of one that are asked after at
	// once. With them a hundred movements a second are forgotten as fast as they come, from one source or from a thousand.
	maxSources, maxAsked = 64, 256
	// maxVoid bounds the void in entries of a holder: what is refused leaves room to remember what is taken.
	maxVoid = MaxRemembered / 4
)

// seen is what is known of an in entry: since which tick, or since when its source is known to be done. over: it was done when it
// was asked last. ask numbers the question that is under way, or whose answer is being written; 0: none is.
type seen struct {
	movement uint64
	since    int64
	over     bool
	ask      uint64
}

func (x *seen) due(tick int64) bool {
	patience := askTicks
	if x.over {
		patience = rememberTicks
	}
	return x.ask == 0 && tick-x.since > patience
}

// recollect makes seen what the in entries are. What was known of one stays.
func (hd *holding) recollect(tick int64) {
	before := hd.seen
	hd.seen = make([]seen, 0, len(hd.In))
	for i := range hd.In {
		movement := hd.In[i].Movement
		for len(before) > 0 && before[0].movement < movement {
			before = before[1:]
		}
		if len(before) > 0 && before[0].movement == movement {
			hd.seen = append(hd.seen, before[0])
		} else {
			hd.seen = append(hd.seen, seen{movement: movement, since: tick})
		}
	}
}

// mayRemember reports whether there is room for another in entry, with all that are being written.
func (hd *holding) mayRemember(void bool) bool {
	all, voids := len(hd.In), 0
	for i := range hd.In {
		if void && hd.In[i].Void {
			voids++
		}
	}
	for c := range hd.changes {
		all += len(c.AddIn)
		for i := range c.AddIn {
			if void && c.AddIn[i].Void {
				voids++
			}
		}
	}
	return all < MaxRemembered && voids < maxVoid
}

// askSources asks the sources of movements whether they are done with them, each source once for all of its movements.
func (s *sim) askSources(h Holder, hd *holding) {
	if len(hd.seen) == 0 {
		return
	}
	var sources []Holder
	asks, asked := map[Holder]uint64{}, map[uint64]int{}
	for i := range hd.seen {
		if ask := hd.seen[i].ask; ask != 0 {
			asked[ask]++
		}
	}
	for i := range hd.seen {
		x := &hd.seen[i]
		if !x.due(s.tick) {
			continue
		}
		from := hd.In[i].From
		ask := asks[from]
		switch {
		case ask != 0 && asked[ask] >= maxAsked, ask == 0 && len(asked) >= maxSources:
			continue
		case ask == 0:
			s.asks++
			ask = s.asks
			asks[from], sources = ask, append(sources, from)
		}
		x.ask = ask
		asked[ask]++
	}
	for _, source := range sources {
		s.askSource(h, source, asks[source])
	}
}

func (s *sim) askSource(h, source Holder, ask uint64) {
	s.store(StoreRequest{Op: StorePeek, Holder: source}, func(a StoreAnswer) {
		hd := s.kept(h)
		if hd == nil {
			return
		}
		open := &holding{}
		if a.Contents != nil {
			open.Contents = *a.Contents
		}
		var over []uint64
		for i := range hd.seen {
			switch x := &hd.seen[i]; {
			case x.ask != ask:
			case x.over && open.out(x.movement) == nil:
				over = append(over, x.movement)
			default:
				x.ask, x.over, x.since = 0, open.out(x.movement) == nil, s.tick
			}
		}
		s.forgetMovements(h, over, ask)
	})
}

// forgetMovements removes the in entries of movements that nobody will ask about. What cannot be written now is asked after again.
func (s *sim) forgetMovements(h Holder, movements []uint64, ask uint64) {
	written := func(ok bool) {
		hd := s.kept(h)
		for i := 0; !ok && hd != nil && i < len(hd.seen); i++ {
			if hd.seen[i].ask == ask {
				hd.seen[i].ask = 0
			}
		}
	}
	switch {
	case len(movements) == 0:
	case s.holdingOf(h) == nil:
		written(false)
	default:
		s.change(h, Change{RemoveIn: slices.Clip(movements)}, written)
	}
}
