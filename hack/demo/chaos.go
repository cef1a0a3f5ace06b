package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/hack/swarm/bots"
	"github.com/spatialcells/spatialcells/node/store/connect"
)

const (
	// killEvery is the time between two kills of zone nodes.
	killEvery = 10 * time.Second
	// calm is how long before the end of the bots the last kill is.
	calm = 5 * time.Second
	// restPatience is how long the world may take to come to rest after the last fault: a lease that expires (15 s), a pod that
	// has crashed often and waits 30 s, recovery, resumed clients.
	restPatience = 2 * time.Minute
	// shownViolations are said at once; of all the first 200 are in the JSON.
	shownViolations = 20
	// auditPatience bounds the audit.
	auditPatience = time.Minute
)

// chaos is what a run with kills did and found.
type chaos struct {
	Seconds    float64         `json:"seconds"`
	Seed       uint64          `json:"seed"`
	Kills      map[string]int  `json:"kills"`      // by node
	StoreKills []bots.Seconds  `json:"storeKills"` // how long the store was away each time
	Settled    bots.Seconds    `json:"settled"`    // how long it took after the last bot had acted
	Swarm      bots.Report     `json:"swarm"`
	Expected   int             `json:"itemsExpected"`
	Ended      int             `json:"itemsEnded"`
	Audit      json.RawMessage `json:"audit,omitempty"`
	Failed     []string        `json:"failed"`

	dice *rand.Rand
}

func newChaos() *chaos {
	c := &chaos{Seed: uint64(time.Now().UnixNano()), Kills: map[string]int{}, Failed: []string{}}
	c.dice = rand.New(rand.NewPCG(c.Seed, 0))
	return c
}

func (c *chaos) fail(format string, args ...any) {
	c.Failed = append(c.Failed, fmt.Sprintf(format, args...))
}

// needStore fails where no store is installed that keeps anything.
func needStore() error {
	for _, server := range []string{"valkey-server", "redis-server"} {
		if _, err := exec.LookPath(server); err == nil {
			return nil
		}
	}
	return &trouble{
		cause:  errors.New("neither valkey-server nor redis-server is installed, and the embedded store keeps nothing when it is killed"),
		remedy: "install one of them (Debian: apt-get install redis-server) and begin anew",
	}
}

// durable fails unless the World's store keeps what it acknowledges.
func (d *demo) durable(ctx context.Context) error {
	c, err := d.site.storeConfig(ctx)
	if err != nil {
		return err
	}
	r, err := connect.Inspect(ctx, c)
	if err != nil {
		return err
	}
	if why := r.Risking(); r.Development() || why != "" {
		return &trouble{cause: fmt.Errorf("the World's store is %s, %s: a kill proves nothing", r.Name(), why), remedy: "use a World with a managed store, and install valkey-server or redis-server"}
	}
	return nil
}

// wreck runs the bots and kills nodes and store under them, then lets the world come to rest and holds everything against what
// the bots know.
func (d *demo) wreck(ctx context.Context) error {
	if err := d.durable(ctx); err != nil {
		return err
	}
	c := newChaos()
	began := time.Now()
	run, cancel := context.WithTimeout(ctx, d.duration)
	defer cancel()
	d.say(fmt.Sprintf("%d bots log in; a node is killed every %v, the store twice; seed %d", d.bots, killEvery, c.Seed))
	d.swarm.Excuse(began.Add(d.duration + restPatience))
	defer context.AfterFunc(ctx, d.swarm.Hurry)()
	done := make(chan struct{})
	go func() { defer close(done); d.kill(run, c) }()
	lines, quiet := context.WithCancel(ctx)
	go d.progress(lines, c)
	c.Swarm = d.swarm.Run(run)
	c.Settled = bots.Seconds(time.Since(began) - d.duration)
	cancel()
	<-done
	quiet()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(c.StoreKills) < 2 {
		c.fail("the store came back %d times of 2", len(c.StoreKills))
	}
	d.settle(ctx, c)
	d.audit(ctx, c)
	d.say("the bots log in again")
	d.comeBack(ctx, c, c.Swarm.ViolationCount)
	c.Seconds = time.Since(began).Seconds()
	fmt.Fprint(d.out, c.String())
	if err := writeJSON(d.json, c); err != nil {
		return err
	}
	if len(c.Failed) > 0 {
		return &trouble{cause: fmt.Errorf("not everything outlived the kills: %s", strings.Join(c.Failed, "; ")), remedy: "the lines above say who saw what; the logs of the nodes' lives are in the folder below", log: d.log("pods")}
	}
	return nil
}

// kill kills a node every killEvery, and the store after a third and two thirds of the time.
func (d *demo) kill(ctx context.Context, c *chaos) {
	start := time.Now()
	stores := []time.Duration{d.duration / 3, d.duration * 2 / 3}
	for at := killEvery; at <= d.duration-calm; at += killEvery {
		for len(stores) > 0 && stores[0] < at {
			if pause(ctx, time.Until(start.Add(stores[0]))) != nil {
				return
			}
			stores = stores[1:]
			d.killStore(ctx, c)
		}
		if pause(ctx, time.Until(start.Add(at))) != nil {
			return
		}
		d.killNode(c)
	}
}

// killNode kills a node that runs; there is none only if all wait for their next life.
func (d *demo) killNode(c *chaos) {
	nodes := d.known()
	for _, i := range c.dice.Perm(len(nodes)) {
		pid, err := d.cluster.PodPID(d.site.key.Namespace, nodes[i].name)
		if err != nil {
			continue
		}
		if err := tell(pid, syscall.SIGKILL); err == nil {
			d.mu.Lock()
			c.Kills[nodes[i].name]++
			d.mu.Unlock()
			d.say("killed " + nodes[i].name)
			return
		}
	}
	d.say("no zone node runs that could be killed")
}

// killStore kills the store and waits until it answers again.
func (d *demo) killStore(ctx context.Context, c *chaos) {
	pid, err := d.cluster.PodPID(d.site.key.Namespace, v1alpha1.StoreName(d.site.key.Name)+"-0")
	if err != nil {
		d.broken(c, "finding the store: %v", err)
		return
	}
	back, began := d.swarm.StoreAway(), time.Now()
	defer back()
	if err := tell(pid, syscall.SIGKILL); err != nil {
		d.broken(c, "%v", err)
		return
	}
	for pause(ctx, pollPeriod) == nil {
		if _, err := d.site.inspectStore(ctx); err == nil {
			away := time.Since(began)
			d.mu.Lock()
			c.StoreKills = append(c.StoreKills, bots.Seconds(away))
			d.mu.Unlock()
			d.say(fmt.Sprintf("killed the store; it was away for %.1f s", away.Seconds()))
			return
		}
	}
}

func (d *demo) broken(c *chaos, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.fail(format, args...)
}

// progress prints a line every few seconds until ctx ends.
func (d *demo) progress(ctx context.Context, c *chaos) {
	shown := 0
	for pause(ctx, 2*livePeriod) == nil {
		if nodes, err := d.site.nodes(ctx, len(d.known())); err == nil {
			d.remember(nodes)
		}
		d.watch.ask(ctx, d.known())
		r := d.swarm.Report()
		for ; shown < min(len(r.Violations), shownViolations); shown++ {
			d.say("violation: " + r.Violations[shown].String())
		}
		d.mu.Lock()
		kills, stores := total(c.Kills), len(c.StoreKills)
		d.mu.Unlock()
		d.say(fmt.Sprintf("killed %d nodes, %d stores | players %s, %d of %d connected | handoffs %.0f | item inputs %d done, %d unknown; items %d, ended %d | crossings %d | back at most %d m, %.1f s | violations %d",
			kills, stores, players(d.watch, d.known()), r.Connected, r.Bots, sumOf(d.watch), total(r.Items.Done), total(r.Items.Unknown), r.Items.Known, r.Items.Ended, r.Crossings, r.Setback, time.Duration(r.Undone).Seconds(), r.ViolationCount))
	}
}

func sumOf(w *watch) float64 {
	sum := w.sum()
	return sum.counters[metricHandoffs]
}

func total(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// settle holds the end of the run against what it must be, and waits until all regions are held.
func (d *demo) settle(ctx context.Context, c *chaos) {
	r := &c.Swarm
	c.Failed = append(c.Failed, r.Failed()...)
	if r.Connected < r.Bots {
		c.fail("only %d of %d players were connected at the end", r.Connected, r.Bots)
	}
	if r.Restless > 0 {
		c.fail("of %d players something was on its way still after %v", r.Restless, restPatience)
	}
	var missing []string
	for deadline := time.Now().Add(recovery); time.Now().Before(deadline); {
		if missing = d.homeless(ctx); len(missing) == 0 || pause(ctx, pollPeriod) != nil {
			break
		}
	}
	c.Failed = append(c.Failed, missing...)
}

// homeless says what keeps the world from being whole.
func (d *demo) homeless(ctx context.Context) []string {
	nodes, err := d.site.nodes(ctx, len(d.known()))
	if err != nil {
		return []string{oneLine(err.Error())}
	}
	d.remember(nodes)
	owners, err := d.site.owners(ctx, d.grid)
	if err != nil {
		return []string{oneLine(err.Error())}
	}
	return unowned(owners, nodes)
}

// audit lets the auditor look at the store, with what the bots expect of it.
func (d *demo) audit(ctx context.Context, c *chaos) {
	if err := d.runAudit(ctx, c); err != nil {
		c.fail("%s", oneLine(err.Error()))
	}
}

func (d *demo) runAudit(ctx context.Context, c *chaos) error {
	x := d.swarm.Expectation()
	c.Expected, c.Ended = len(x.Present), len(x.Absent)
	config, err := d.site.storeConfig(ctx)
	if err != nil {
		return err
	}
	secret, err := config.Credentials()
	if err != nil {
		return err
	}
	expect, password, report := filepath.Join(d.dir, "expect.json"), filepath.Join(d.dir, "store-password"), filepath.Join(d.dir, "audit.json")
	_ = os.Remove(report) // an earlier run's
	if err := writeJSON(expect, x); err != nil {
		return err
	}
	if err := os.WriteFile(password, []byte(secret.Password), 0o600); err != nil {
		return fmt.Errorf("writing the password for the audit: %w", err)
	}
	defer os.Remove(password)
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(d.dir, "bin", "zone-node"), "audit", "--store="+config.URL, "--store-password-file="+password, "--json="+report, "--expect="+expect)
	words, err := cmd.CombinedOutput()
	if b, unread := os.ReadFile(report); unread == nil && json.Valid(b) {
		c.Audit = b
	}
	switch {
	case err == nil:
		d.say(fmt.Sprintf("audit: the store has each item once, with %d that must be there and without %d that must not", c.Expected, c.Ended))
		return nil
	case cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 1 && c.Audit != nil:
		return fmt.Errorf("audit: the store has faults: %s", faultsOf(c.Audit))
	}
	return fmt.Errorf("audit: %w: %s", err, lastWords(string(words)))
}

// faultsOf lists the first faults of an audit.
func faultsOf(report []byte) string {
	var r struct {
		Found  int
		Faults []struct{ Kind, What string }
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return "its report cannot be read: " + err.Error()
	}
	var first []string
	for _, f := range r.Faults[:min(len(r.Faults), 5)] {
		first = append(first, f.Kind+": "+f.What)
	}
	return fmt.Sprintf("%d, %s", r.Found, strings.Join(first, "; "))
}

func lastWords(s string) string { return s[max(0, len(s)-400):] }

// comeBack logs all bots in again: each stands where it logged out and carries what it did. There were so many violations before.
func (d *demo) comeBack(ctx context.Context, c *chaos, was int) {
	r := d.swarm.Return(ctx)
	if r.ViolationCount > was {
		c.fail("%d violations when the bots came back: %s", r.ViolationCount-was, r.Violations[len(r.Violations)-1])
	}
	if r.Connected < c.Swarm.Connected || r.Restless > 0 {
		c.fail("%d of %d players came back, of %d something is on its way", r.Connected, c.Swarm.Connected, r.Restless)
	}
}

// String is for people.
func (c *chaos) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nsummary\nkilled      %d nodes:", total(c.Kills))
	for _, node := range slices.Sorted(maps.Keys(c.Kills)) {
		fmt.Fprintf(&b, " %s %d", node, c.Kills[node])
	}
	fmt.Fprintf(&b, "; the store %d times, away for", len(c.StoreKills))
	for _, s := range c.StoreKills {
		fmt.Fprintf(&b, " %.1f s", time.Duration(s).Seconds())
	}
	fmt.Fprintf(&b, "\nat rest     %.1f s after the bots had stopped; a crash took them back %d m at most, and %.1f s\n", time.Duration(c.Settled).Seconds(), c.Swarm.Setback, time.Duration(c.Swarm.Undone).Seconds())
	fmt.Fprintf(&b, "audited     %d items that must be there, %d that must not\n", c.Expected, c.Ended)
	b.WriteString(c.Swarm.Summary())
	if len(c.Failed) == 0 {
		b.WriteString("verdict     good\n")
	}
	for _, f := range c.Failed {
		fmt.Fprintf(&b, "FAILED      %s\n", f)
	}
	return b.String()
}
