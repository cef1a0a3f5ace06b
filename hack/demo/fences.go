package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// trial is something that may make a node act when it must not.
type trial struct {
	name string
	// fenced: the node's deadline passes, and the checker must have seen it silent. A trial in which it does not pass shows
	// that what happens is no reason to stand still.
	fenced bool
	// keeps: the node keeps its session, for nobody took it over.
	keeps bool
	run   func(*drill, context.Context, zoneNode) error
	// after undoes it when the trial is over; nil: it has ended by itself.
	after func(*drill, context.Context, zoneNode) error
}

const (
	// afterwards is how long a node is watched after what was done to it has ended.
	afterwards = 3 * time.Second
	// beforehand is how long a node acts in peace before, so that its silence shows something.
	beforehand = 5 * time.Second
)

var trials = []trial{
	{name: "stopped past its deadline, in time for its lease", fenced: true, keeps: true, run: (*drill).stopShortly},
	{name: "stopped across its lease", fenced: true, run: (*drill).stopAcross},
	{name: "cut off from API and peers", fenced: true, run: cutFrom(portLink)},
	{name: "cut off from the API only", fenced: true, run: cutFrom()},
	{name: "cut off from peers only", keeps: true, run: (*drill).cutPeers},
	{name: "wall clock jumps an hour ahead, two back, and home", keeps: true, run: (*drill).jumpWall},
	{name: "clock since boot jumps an hour ahead", fenced: true, keeps: true, run: (*drill).jumpBoot, after: (*drill).setRight},
}

// fenceReport is what the trials showed.
type fenceReport struct {
	Trials   []trialReport `json:"trials"`
	Silences []silence     `json:"silences"`
}

type trialReport struct {
	Name    string  `json:"name"`
	Node    string  `json:"node"`
	Fenced  bool    `json:"fenced"`
	Seconds float64 `json:"silentSeconds"`
	began   time.Time
	ended   time.Time
	address netip.Addr
}

// watchers are the external checker's eyes.
type watchers struct {
	tap   *tap
	store *storeLog
	jumps map[netip.Addr][]time.Time
	stop  context.CancelFunc
}

func (r *drill) openEyes(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	r.eyes = &watchers{jumps: map[netip.Addr][]time.Time{}, stop: stop}
	var err error
	a, b := r.cluster.PodNetwork()
	if r.eyes.tap, err = openTap(ctx, a, b); err == nil {
		r.eyes.store, err = r.watchStore(ctx)
	}
	if err != nil {
		stop()
	}
	return err
}

// fences makes nodes' deadlines pass in every way, and looks from outside whether any of them acts all the same.
func (r *drill) fences(ctx context.Context) error {
	if err := r.openEyes(ctx); err != nil {
		return err
	}
	defer r.eyes.stop()
	report := &fenceReport{}
	r.data = report
	for i, t := range trials {
		done, err := r.trial(ctx, i, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		report.Trials = append(report.Trials, done)
	}
	if err := pause(ctx, time.Second); err != nil { // what is on its way to the logs
		return err
	}
	end := time.Now()
	r.eyes.stop()
	if err := r.judge(report, end); err != nil {
		return err
	}
	r.report = report.String()
	return nil
}

// trial does one thing to one node.
func (r *drill) trial(ctx context.Context, i int, t trial) (trialReport, error) {
	if err := pause(ctx, beforehand); err != nil {
		return trialReport{}, err
	}
	n := r.known()[i%len(r.known())]
	address, err := netip.ParseAddr(n.host())
	if err != nil {
		return trialReport{}, fmt.Errorf("the address of %s: %w", n.name, err)
	}
	done := trialReport{Name: t.name, Node: n.session(), began: time.Now(), address: address}
	r.excuse(3 * r.leaseDuration())
	if err := t.run(r, ctx, n); err != nil {
		return done, err
	}
	if err := pause(ctx, afterwards); err != nil {
		return done, err
	}
	if err := r.calm(ctx); err != nil {
		return done, err
	}
	done.ended = time.Now()
	if is := r.ledger.session(n.name).id; (is == n.session()) != t.keeps {
		r.fail("%s: %s became %s", t.name, n.session(), is)
	}
	if t.after != nil {
		if err := errors.Join(t.after(r, ctx, n), r.calm(ctx)); err != nil {
			return done, err
		}
	}
	r.say(fmt.Sprintf("%s: %s, now %s, the world whole after %.1f s; violations %d; %s", t.name, n.session(), r.ledger.session(n.name).id,
		time.Since(done.began).Seconds(), r.sofar().ViolationCount, load()))
	return done, nil
}

// stopFor stops a node for a time.
func (r *drill) stopFor(ctx context.Context, n zoneNode, d time.Duration) error {
	if err := r.signal([]zoneNode{n}, syscall.SIGSTOP); err != nil {
		return err
	}
	err := pause(ctx, d)
	return errors.Join(err, r.signal([]zoneNode{n}, syscall.SIGCONT))
}

// stopShortly stops a node for longer than it may act, and shorter than others wait.
func (r *drill) stopShortly(ctx context.Context, n zoneNode) error {
	return r.stopFor(ctx, n, r.renewDeadline()+(r.leaseDuration()-r.renewDeadline())/4)
}

func (r *drill) stopAcross(ctx context.Context, n zoneNode) error {
	return r.stopFor(ctx, n, r.leaseDuration()+afterwards)
}

// cutFrom cuts a node off from the API server, and from what else has the given ports, until its lease is long over.
func cutFrom(ports ...int) func(*drill, context.Context, zoneNode) error {
	return func(r *drill, ctx context.Context, n zoneNode) error {
		return r.cutFor(ctx, n, r.leaseDuration()+2*afterwards, append([]int{r.cluster.APIPort()}, ports...)...)
	}
}

func (r *drill) cutPeers(ctx context.Context, n zoneNode) error {
	return r.cutFor(ctx, n, r.leaseDuration()+2*afterwards, portLink)
}

func (r *drill) cutFor(ctx context.Context, n zoneNode, d time.Duration, ports ...int) error {
	if err := r.cuts.cut(ctx, n.host(), ports...); err != nil {
		return err
	}
	r.pardons.add(pardon{from: time.Now(), until: time.Now().Add(d + afterwards), kinds: lateSights})
	err := pause(ctx, d)
	return errors.Join(err, r.cuts.heal())
}

// jumpWall makes the wall clock of a node jump both ways: it is nobody's business.
func (r *drill) jumpWall(ctx context.Context, n zoneNode) error {
	c, err := r.crook(n)
	if err != nil {
		return err
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		if err := errors.Join(c.jumpWall(by), pause(ctx, r.leaseDuration())); err != nil {
			return err
		}
	}
	return nil
}

// jumpBoot makes the clock since boot of a node jump ahead, as it does when a machine was suspended: the deadline has passed
// at once. The API is out of reach for a moment, so that the node cannot renew at once, and thaw.
func (r *drill) jumpBoot(ctx context.Context, n zoneNode) error {
	c, err := r.crook(n)
	if err != nil {
		return err
	}
	address, err := netip.ParseAddr(n.host())
	if err != nil {
		return fmt.Errorf("the address of %s: %w", n.name, err)
	}
	if err := errors.Join(r.cuts.cut(ctx, n.host(), r.cluster.APIPort()), c.jumpBoot(time.Hour)); err != nil {
		return errors.Join(err, r.cuts.heal())
	}
	now := time.Now()
	r.eyes.jumps[address] = append(r.eyes.jumps[address], now)
	r.pardons.add(pardon{from: now, until: now.Add(recovery), kinds: strayTicks, through: n.name})
	return errors.Join(pause(ctx, r.renewDeadline()/2), r.cuts.heal())
}

// setRight ends the process whose clock is wrong: the next one goes by the machine's again.
func (r *drill) setRight(ctx context.Context, n zoneNode) error {
	err := r.kill(ctx, []zoneNode{n})
	return errors.Join(err, pause(ctx, afterwards))
}

func (r *drill) crook(n zoneNode) (*crooked, error) {
	pid, err := r.cluster.PodPID(r.site.key.Namespace, n.name)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", n.name, err)
	}
	return crook(pid)
}

// judge holds what was seen against the deadlines.
func (r *drill) judge(report *fenceReport, end time.Time) error {
	leases, err := r.leaseWrites()
	if err != nil {
		return err
	}
	packets, err := r.eyes.tap.all()
	if err != nil {
		return err
	}
	writes, err := r.eyes.store.all()
	if err != nil {
		return err
	}
	list := silences(leases, r.renewDeadline(), r.eyes.jumps, end)
	for i := range list {
		s := &list[i]
		for _, p := range packets {
			s.count(string(p.what), p.from, p.at)
		}
		for _, w := range writes {
			s.count(kindStore, w.from, w.at)
		}
		for _, w := range leases {
			if w.ofRegion() { // whatever became of it
				s.count(kindLease, w.from, w.received)
			}
		}
	}
	report.Silences = list
	r.say(fmt.Sprintf("the checker saw %d packets of zone nodes, %d writes of the store, %d writes of leases", len(packets), len(writes), len(leases)))
	for i := range list {
		if broken := list[i].broken(); broken != "" {
			r.fail("%s", broken)
		}
	}
	for i := range report.Trials {
		r.judgeTrial(&report.Trials[i], trials[i], list)
	}
	return nil
}

// judgeTrial holds a trial against what it was to bring about: without a silence, or without anything that the node did
// before it, it shows nothing.
func (r *drill) judgeTrial(done *trialReport, t trial, list []silence) {
	for _, s := range list {
		if s.address != done.address || s.until.Before(done.began) || s.from.After(done.ended) {
			continue
		}
		done.Fenced = true
		done.Seconds = max(done.Seconds, s.Seconds)
		if t.fenced && s.Before[string(toPeers)] == 0 {
			r.fail("%s: %s was not seen to send to its peers before its deadline either, so it shows nothing", t.name, done.Node)
		}
	}
	if done.Fenced != t.fenced {
		r.fail("%s: the deadline of %s passed: %t, expected: %t", t.name, done.Node, done.Fenced, t.fenced)
	}
}

// String is for people.
func (f *fenceReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-52s %-18s %s\n", "trial", "node", "had to be silent")
	for _, t := range f.Trials {
		fenced := "never"
		if t.Fenced {
			fenced = fmt.Sprintf("for %.2f s", t.Seconds)
		}
		fmt.Fprintf(&b, "%-52s %-18s %s\n", t.Name, t.Node, fenced)
	}
	fmt.Fprintf(&b, "%-18s %8s %10s   %s\n", "silence of", "seconds", "last act", "seen in the 10 s before, and after the deadline")
	for _, s := range f.Silences {
		var seen []string
		for _, kind := range slices.Sorted(maps.Keys(s.Before)) {
			seen = append(seen, fmt.Sprintf("%s %d, %d", kind, s.Before[kind], s.After[kind]))
		}
		for kind, n := range s.After {
			if s.Before[kind] == 0 {
				seen = append(seen, fmt.Sprintf("%s 0, %d", kind, n))
			}
		}
		fmt.Fprintf(&b, "%-18s %8.2f %7.1f ms   %s\n", fmt.Sprintf("%s#%d", s.Node, s.Life), s.Seconds, s.Last, strings.Join(seen, "; "))
	}
	return b.String()
}
