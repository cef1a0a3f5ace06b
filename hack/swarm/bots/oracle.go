package bots

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/api/wire"
	"github.com/spatialcells/spatialcells/node/client"
)

const (
	// Grace is how long what is seen may differ from what is there: two ticks, a link's delay, the streaming of a chunk.
	Grace = 100*time.Millisecond + 400*time.Millisecond + time.Second
	// settle is how long one must have looked somewhere before one must see who stands there.
	settle = 2 * time.Second
	// Tolerance is how far, in metres, an entity may be seen from where it is: the slack of one client, and two ticks of
	// each side at 4 m/s.
	Tolerance = client.Slack + 2
	// patience is for what only happens when something hangs.
	patience = 20 * time.Second
)

// Kinds of violations that take several clients to see; client.ViolationKind has the others.
const (
	Invisible  client.ViolationKind = "invisible"
	Misplaced  client.ViolationKind = "misplaced"
	SaidHole   client.ViolationKind = "said-hole"
	SaidRepeat client.ViolationKind = "said-repeat"
	Twin       client.ViolationKind = "twin"
	Absent     client.ViolationKind = "absent"
	Stalled    client.ViolationKind = "stalled"
	Unanswered client.ViolationKind = "unanswered"
)

// view is how one bot sees another.
type view struct {
	looking time.Time // since when it should see it without a break
	missing time.Time // since when it does not
	astray  time.Time // since when it sees it in the wrong place
	// told: this lapse was reported.
	told bool
	// sighting and since say how long it has seen it without interruption.
	sighting sighting
	since    time.Time
}

// sighting names an uninterrupted stream of one entity.
type sighting struct {
	appeared uint64
	marks    int
}

// hearing is what one bot heard of a speaker.
type hearing struct {
	last     int
	sighting sighting
	breaks   int
}

// listen checks the numbers of what was heard.
func (b *bot) listen(list []client.Said) {
	for _, s := range list {
		n, err := strconv.Atoi(strings.TrimPrefix(s.Text, "#"))
		speaker := b.swarm.byEntity[s.Speaker]
		if err != nil || speaker == nil {
			continue
		}
		b.swarm.count.heard++
		b.hear(speaker, s, n)
	}
}

func (b *bot) hear(speaker *bot, s client.Said, n int) {
	h := b.hearing[s.Speaker]
	now := sighting{s.Appeared, s.Marks}
	switch {
	case h == nil:
		h = &hearing{}
		b.hearing[s.Speaker] = h
	case h.sighting != now || h.breaks != speaker.breaks: // it was marked: anything may have been missed, or be done again
	case n <= h.last:
		b.swarm.violate(b, speaker, SaidRepeat, s.Speaker, fmt.Sprintf("it said #%d after #%d", n, h.last))
	case n > h.last+1:
		b.swarm.violate(b, speaker, SaidHole, s.Speaker, fmt.Sprintf("it said #%d after #%d", n, h.last))
	}
	*h = hearing{n, now, speaker.breaks}
}

// modelViolations takes over what the client saw by itself.
func (b *bot) modelViolations(m *client.Model) {
	for i := b.violations; i < len(m.Violations); i++ {
		v := m.Violations[i]
		b.swarm.violate(b, b.swarm.byEntity[v.Entity], v.Kind, v.Entity, v.Detail)
	}
	if missed := m.ViolationCount - max(len(m.Violations), b.violations); missed > 0 {
		b.swarm.count.violations += missed
	}
	b.violations = max(m.ViolationCount, b.violations)
}

// check holds what this bot sees against what the others of its place know of themselves.
func (b *bot) check(now time.Time, place []*bot) {
	b.checkVanished()
	b.checkHangs(now)
	if !b.truth.ok || b.complete.IsZero() || now.Sub(b.complete) < settle {
		clear(b.views)
		return
	}
	b.client.Do(func(m *client.Model, tick uint64) {
		for _, other := range place {
			if other != b && other.client != nil {
				b.checkSight(m, tick, other, now)
			}
		}
		b.checkTwins(m)
	})
}

func (b *bot) checkSight(m *client.Model, tick uint64, other *bot, now time.Time) {
	v := b.views[other.index]
	if v == nil {
		v = &view{}
		b.views[other.index] = v
	}
	if !other.truth.ok || !m.Surrounded(other.truth.at) {
		*v = view{}
		return
	}
	if v.looking.IsZero() {
		v.looking = now
	}
	seen := m.Entities[other.truth.entity]
	if seen == nil {
		v.since, v.astray = time.Time{}, time.Time{}
		b.lapse(v, &v.missing, now, other, Invisible, func() string {
			return fmt.Sprintf("it stands at %v, in plain sight", other.truth.at)
		})
		return
	}
	v.missing = time.Time{}
	if s := (sighting{seen.Appeared, seen.Marks}); v.since.IsZero() || v.sighting != s {
		v.sighting, v.since = s, now
	}
	b.checkWords(v, other, seen, now)
	at := m.At(seen, tick)
	if m.Grid.Chebyshev(at, other.truth.at) <= Tolerance {
		v.astray, v.told = time.Time{}, false
		return
	}
	b.lapse(v, &v.astray, now, other, Misplaced, func() string {
		return fmt.Sprintf("it is seen at %v and stands at %v", at, other.truth.at)
	})
}

// lapse reports what has been wrong for longer than the grace, once.
func (b *bot) lapse(v *view, since *time.Time, now time.Time, other *bot, kind client.ViolationKind, detail func() string) {
	if since.IsZero() {
		*since = now
	}
	// Who looks has heard of the world since, and so has the other of itself: what its owner said last before a crash reaches
	// some and not others, until the mark of its recovery.
	told := b.stats.Batch.Sub(*since) > Grace && other.whereabouts.heard.Sub(*since) > Grace
	if !v.told && told && now.Sub(*since) > Grace && now.Sub(v.looking) > settle+Grace {
		v.told = true
		b.swarm.violate(b, other, kind, other.truth.entity, fmt.Sprintf("for %v %s", now.Sub(*since).Round(time.Millisecond), detail()))
	}
}

// checkWords: who was in sight without interruption since before a word was said has heard it by now.
func (b *bot) checkWords(v *view, other *bot, seen *client.Seen, now time.Time) {
	h := b.hearing[seen.ID]
	for _, w := range other.confirmed {
		if h != nil && h.last >= w.number || w.at.Sub(v.since) < settle || now.Sub(w.at) < settle+Grace || b.stats.Batch.Sub(w.at) < Grace || other.whereabouts.heard.Sub(w.at) < Grace {
			continue
		}
		if h == nil {
			h = &hearing{}
			b.hearing[seen.ID] = h
		}
		b.swarm.violate(b, other, SaidHole, seen.ID, fmt.Sprintf("it said #%d %v ago, the last heard is #%d", w.number, now.Sub(w.at).Round(time.Millisecond), h.last))
		*h = hearing{w.number, v.sighting, other.breaks} // told once
	}
}

// checkTwins: an account has one entity, at each moment and for everybody.
func (b *bot) checkTwins(m *client.Model) {
	for id, seen := range m.Entities {
		n, ours := indexOf(b.swarm.run, seen.Name)
		if !ours || n >= len(b.swarm.bots) {
			continue
		}
		other := b.swarm.bots[n]
		if known := other.truth.entity; other.truth.ok && known != id && m.Entities[known] != nil {
			b.swarm.violate(b, other, Twin, id, fmt.Sprintf("its account has entity %v as well", known))
		}
	}
}

// checkVanished: a bot that is connected and in plain sight does not leave the world.
func (b *bot) checkVanished() {
	for _, v := range b.vanished {
		other := b.swarm.byEntity[v.Entity]
		if other == nil || !v.Surrounded || !other.truth.ok || v.Reason == wire.VanishReason_VANISH_REASON_OUT_OF_SIGHT {
			continue // out of sight is judged by the model
		}
		b.swarm.violate(b, other, client.Blink, v.Entity, fmt.Sprintf("it vanished at %v as %v and is connected", v.At, v.Reason))
	}
	b.vanished = b.vanished[:0]
}

// checkHangs reports what waits for too long.
func (b *bot) checkHangs(now time.Time) {
	connected := b.connected && !now.Before(b.swarm.excused)
	b.hang(&b.absent, now, connected && b.truth.entity == 0, Absent, "it has no entity")
	b.hang(&b.stalled, now, connected && b.truth.entity != 0 && !b.hears(now), Stalled, "nothing is heard of the world")
	waiting := connected && b.client.Unanswered() > 0
	if !waiting {
		b.openSince = now
	}
	if now.Sub(b.openSince) > patience {
		b.openSince = now
		b.swarm.violate(b, nil, Unanswered, b.truth.entity, fmt.Sprintf("for %v input %d has no result", patience, b.acked+1))
	}
}

func (b *bot) hang(since *time.Time, now time.Time, hangs bool, kind client.ViolationKind, detail string) {
	switch {
	case !hangs:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	case now.Sub(*since) > patience:
		*since = now
		b.swarm.violate(b, nil, kind, b.truth.entity, fmt.Sprintf("for %v %s", patience, detail))
	}
}
