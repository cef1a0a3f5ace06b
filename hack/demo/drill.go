package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/hack/swarm/bots"
)

// drillPatience bounds a drill; what is left of it then was not shown.
const drillPatience = 15 * time.Minute

// drill is a run by a script of faults that is built in, under bots that handle items. What the script finds is in its rows;
// in the end the world comes to rest, the auditor holds the store against what the bots know, and they log in again.
type drill struct {
	*demo
	*chaos
	ledger *ledger
	cuts   *cutting
	eyes   *watchers
	world  *v1alpha1.World
	struck time.Time // when the latest fault struck
	// pardons are what the bots may see.
	pardons  pardons
	pardoned int // how often they did
	// report is what the script found, for people; data is the same for machines.
	report string
	data   any
}

// drill runs the bots and the script, and judges.
func (d *demo) drill(ctx context.Context) error {
	if err := d.durable(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, drillPatience, fmt.Errorf("not through after %v", drillPatience))
	defer cancel()
	r := &drill{demo: d, chaos: newChaos(), world: &v1alpha1.World{}}
	if err := d.site.api.Get(ctx, d.site.key, r.world); err != nil {
		return fmt.Errorf("reading the World: %w", err)
	}
	var err error
	if r.cuts, err = newCutting(ctx); err != nil {
		return err
	}
	defer func() { _ = r.cuts.remove() }() // an empty table harms nobody, and the next run removes it
	if r.ledger, err = d.watchLeases(ctx); err != nil {
		return err
	}
	script := r.failovers
	if d.fence {
		script = r.fences
	}
	if err := r.run(ctx, script); err != nil {
		return err
	}
	fmt.Fprint(d.out, r.String())
	if err := writeJSON(d.json, struct {
		Drill any    `json:"drill"`
		Load  string `json:"load"`
		*chaos
	}{r.data, load(), r.chaos}); err != nil {
		return err
	}
	if len(r.Failed) > 0 {
		return &trouble{cause: fmt.Errorf("the drill did not show what it must: %s", strings.Join(r.Failed, "; ")), remedy: r.advice(), log: d.log("pods")}
	}
	return nil
}

// run plays the script under the bots, and everything that comes after.
func (r *drill) run(ctx context.Context, script func(context.Context) error) error {
	began := time.Now()
	r.pardons.began = began
	walk, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, r.swarm.Hurry)()
	go r.tellViolations(walk)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Swarm = r.swarm.Run(walk)
	}()
	r.say(fmt.Sprintf("%d bots log in; %s", r.bots, load()))
	err := r.calm(ctx)
	if err == nil {
		err = script(ctx)
	}
	if err != nil {
		r.fail("%s", oneLine(err.Error()))
	}
	stopped := time.Now()
	r.swarm.Excuse(stopped.Add(restPatience))
	stop()
	<-done
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return ctx.Err()
	}
	r.Settled = bots.Seconds(time.Since(stopped))
	r.pardoned = r.pardons.forgive(&r.Swarm)
	r.settle(ctx, r.chaos)
	r.audit(ctx, r.chaos)
	r.say("the bots log in again")
	r.comeBack(ctx, r.chaos, r.Swarm.ViolationCount+r.pardoned)
	r.Seconds = time.Since(began).Seconds()
	return nil
}

// sofar is what the bots have found, without what is pardoned.
func (r *drill) sofar() bots.Report {
	report := r.swarm.Report()
	r.pardons.forgive(&report)
	return report
}

// tellViolations says them as they come.
func (r *drill) tellViolations(ctx context.Context) {
	for shown := 0; pause(ctx, time.Second) == nil; {
		report := r.sofar()
		for ; shown < min(len(report.Violations), shownViolations); shown++ {
			r.say("violation: " + report.Violations[shown].String())
		}
	}
}

// calm waits until the world is whole: everybody is connected, and all regions are simulated by sessions that live.
func (r *drill) calm(ctx context.Context) error {
	var missing string
	for began := time.Now(); time.Since(began) < recovery+loginTime; {
		if missing = r.unrest(ctx); missing == "" {
			return nil
		}
		if err := pause(ctx, pollPeriod); err != nil {
			return fmt.Errorf("waiting for the world to be whole: %w: %s", context.Cause(ctx), missing)
		}
	}
	return fmt.Errorf("the world was not whole again after %v: %s", recovery+loginTime, missing)
}

// loginTime is what the first logins may take on top of a recovery.
const loginTime = 30 * time.Second

// unrest says what keeps the world from being whole, or nothing.
func (r *drill) unrest(ctx context.Context) string {
	nodes, err := r.site.nodes(ctx, len(r.known()))
	if err != nil {
		return oneLine(err.Error())
	}
	r.remember(nodes)
	for _, n := range nodes {
		if s := r.ledger.session(n.name); s.pod == "" || s.id != n.session() {
			return n.name + " has no session"
		}
		said, err := scrape(ctx, n.http())
		if err != nil {
			return n.name + " does not answer"
		}
		held := len(r.ledger.held(n.session()))
		if said.gauges[metricRegions] != float64(held) || said.gauges[metricRecovering] != 0 {
			return fmt.Sprintf("%s simulates %.0f of %d regions", n.name, said.gauges[metricRegions]-said.gauges[metricRecovering], held)
		}
	}
	if n := r.ledger.orphans(); n > 0 {
		return fmt.Sprintf("%d regions are held by nobody who lives", n)
	}
	if report := r.swarm.Report(); report.Connected < report.Bots {
		return fmt.Sprintf("%d of %d players are connected", report.Connected, report.Bots)
	}
	return ""
}

// excuse tells the bots that the world may hang for a while from now.
func (r *drill) excuse(d time.Duration) { r.swarm.Excuse(time.Now().Add(d + recovery/2)) }

// leaseDuration is how long a silent node is waited for.
func (r *drill) leaseDuration() time.Duration {
	return time.Duration(r.world.Spec.Fencing.LeaseDurationSeconds) * time.Second
}

// renewDeadline is how long after a renewal a node may act.
func (r *drill) renewDeadline() time.Duration {
	return time.Duration(r.world.Spec.Fencing.RenewDeadlineSeconds) * time.Second
}

// load says how busy the machine is: figures of a busy one say little.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	first, _, _ := strings.Cut(string(b), " ")
	return fmt.Sprintf("load average %s on %d processors", first, runtime.NumCPU())
}

// advice says what to do about a drill that failed.
func (r *drill) advice() string {
	return "the lines above say which round, node and bot; the nodes' logs say what they waited for, `kubectl get events` what the operator saw. If only a time is missed, repeat it where nothing else runs: now it was " + load()
}

// String is for people.
func (r *drill) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nsummary (%s)\n%s", load(), r.report)
	fmt.Fprintf(&b, "at rest     %.1f s after the bots had stopped; crashes took them back %d m at most, and %.1f s\n", time.Duration(r.Settled).Seconds(), r.Swarm.Setback, time.Duration(r.Swarm.Undone).Seconds())
	fmt.Fprintf(&b, "audited     %d items that must be there, %d that must not\n", r.Expected, r.Ended)
	if r.pardoned > 0 {
		fmt.Fprintf(&b, "pardoned    %d sights over a cut while it lasted, or by clients of a node whose clock jumped\n", r.pardoned)
	}
	b.WriteString(r.Swarm.Summary())
	if len(r.Failed) == 0 {
		b.WriteString("verdict     good\n")
	}
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "FAILED      %s\n", f)
	}
	return b.String()
}
