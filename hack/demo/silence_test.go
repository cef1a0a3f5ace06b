package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

var (
	pod   = netip.MustParseAddr("127.20.0.4")
	other = netip.MustParseAddr("127.20.0.5")
	noon  = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)
)

// renewal is a renewal that arrived a millisecond after it was sent.
func renewal(from netip.Addr, life int32, at time.Duration) leaseWrite {
	return leaseWrite{received: noon.Add(at + time.Millisecond), answered: noon.Add(at + 2*time.Millisecond), from: from, lease: "genesis-zone-0", done: true, holder: "genesis-zone-0_uid", life: life, renewed: noon.Add(at)}
}

func TestANodeHasToBeSilentFromItsDeadlineToItsNextRenewal(t *testing.T) {
	crooked := renewal(pod, 2, 13*time.Second)
	crooked.renewed = noon.Add(time.Hour)
	refused := renewal(pod, 1, 6*time.Second)
	refused.done = false
	list := silences([]leaseWrite{
		renewal(pod, 1, 0), renewal(pod, 1, 2*time.Second), refused, renewal(other, 1, 7*time.Second), renewal(pod, 2, 10*time.Second), crooked,
	}, 4*time.Second, map[netip.Addr][]time.Time{other: {noon.Add(9 * time.Second)}}, noon.Add(20*time.Second))
	want := []struct {
		address     netip.Addr
		from, until time.Duration
	}{
		{pod, 6 * time.Second, 10*time.Second + time.Millisecond},  // the refused one extends nothing
		{other, 9 * time.Second, 20 * time.Second},                 // its clock jumped
		{pod, 17*time.Second + time.Millisecond, 20 * time.Second}, // its word of the time is not believed
	}
	if len(list) != len(want) {
		t.Fatalf("%d silences: %+v", len(list), list)
	}
	for i, w := range want {
		if s := list[i]; s.address != w.address || !s.from.Equal(noon.Add(w.from)) || !s.until.Equal(noon.Add(w.until)) {
			t.Errorf("silence %d of %v from %v to %v, want %+v", i, s.address, s.from.Sub(noon), s.until.Sub(noon), w)
		}
	}
}

func TestWhatANodeDoesInItsSilenceIsSaid(t *testing.T) {
	s := silences([]leaseWrite{renewal(pod, 1, 0)}, 4*time.Second, nil, noon.Add(20*time.Second))[0]
	at := func(from netip.Addr, d time.Duration) { s.count(kindStore, from, noon.Add(d)) }
	at(pod, 3*time.Second)
	at(pod, 4*time.Second+onItsWay) // it was on its way
	at(other, 8*time.Second)
	at(pod, 21*time.Second) // nobody watched any more
	if said := s.broken(); said != "" || s.Before[kindStore] != 2 {
		t.Errorf("%q, before %v", said, s.Before)
	}
	at(pod, 9*time.Second)
	if said := s.broken(); !strings.Contains(said, "genesis-zone-0#1 acted after its deadline") || !strings.Contains(said, "5000 ms after it") {
		t.Errorf("%q", said)
	}
}
