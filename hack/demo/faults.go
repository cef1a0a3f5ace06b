package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// recovery is how long after a fault all must be well again: a revoked lease (15 s), a restart, a recovery of regions,
// resumed clients.
const recovery = 60 * time.Second

// faultKind says what is done.
type faultKind string

const (
	faultKill faultKind = "kill" // SIGKILL of a zone node
	faultStop faultKind = "stop" // SIGSTOP of a zone node, then SIGCONT
	faultAPI  faultKind = "api"  // the API server is away
	// faultStore is SIGKILL of the store
	faultStore faultKind = "store"
	// faultMove is an edit of the assignment that moves a quarter of all regions, and trouble in the middle of it.
	faultMove faultKind = "move"
	// faultWindow is the same edit, and a window that opens later and is too short for it.
	faultWindow faultKind = "window"
	// faultCrowd puts many entities into one region; its node is killed and recovers them, then the region moves
	faultCrowd faultKind = "crowd"
)

// fault is one to inject, counted from the start of the bots.
type fault struct {
	kind   faultKind
	node   int
	at     time.Duration
	length time.Duration
	amid   string // of faultMove: what happens meanwhile
}

func (f fault) String() string {
	switch f.kind {
	case faultKill:
		return fmt.Sprintf("kill:%d@%v", f.node, f.at)
	case faultStop:
		return fmt.Sprintf("stop:%d@%v+%v", f.node, f.at, f.length)
	case faultStore:
		return fmt.Sprintf("store@%v", f.at)
	case faultCrowd, faultWindow:
		return fmt.Sprintf("%s@%v", f.kind, f.at)
	case faultMove:
		return fmt.Sprintf("move%s@%v", strings.TrimSuffix(":"+f.amid, ":"), f.at)
	}
	return fmt.Sprintf("api@%v+%v", f.at, f.length)
}

const maxFaults = 32

// parseFaults reads "kill:1@30s,stop:2@40s+20s,api@50s+30s,store@90s".
func parseFaults(script string) ([]fault, error) {
	var list []fault
	for part := range strings.SplitSeq(script, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		f, err := parseFault(part)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %w; want kill:NODE@TIME, stop:NODE@TIME+LENGTH, api@TIME+LENGTH, store@TIME, or move@TIME, move:node@TIME, move:operator@TIME, move:api@TIME, window@TIME, crowd@TIME", part, err)
		}
		if list = append(list, f); len(list) > maxFaults {
			return nil, fmt.Errorf("more than %d faults", maxFaults)
		}
	}
	slices.SortStableFunc(list, func(a, b fault) int { return int(a.at - b.at) })
	return list, nil
}

func parseFault(s string) (f fault, err error) {
	what, when, _ := strings.Cut(s, "@")
	kind, node, hasNode := strings.Cut(what, ":")
	at, length, hasLength := strings.Cut(when, "+")
	f.kind = faultKind(kind)
	if f.at, err = readDuration(at); err != nil {
		return f, fmt.Errorf("the time: %w", err)
	}
	if hasLength {
		if f.length, err = readDuration(length); err != nil {
			return f, fmt.Errorf("the length: %w", err)
		}
	}
	if f.kind == faultMove {
		if f.amid = node; hasLength || f.at < 0 || !slices.Contains(amidst, f.amid) {
			return f, errors.New("it is incomplete")
		}
		return f, nil
	}
	if hasNode {
		if f.node, err = strconv.Atoi(node); err != nil {
			return f, fmt.Errorf("the node: %w", err)
		}
	}
	known := f.kind == faultKill || f.kind == faultStop || f.kind == faultAPI || f.kind == faultStore || f.kind == faultCrowd || f.kind == faultWindow
	if !known || hasNode != f.strikesNode() || hasLength != (f.kind == faultStop || f.kind == faultAPI) || f.at < 0 || f.length < 0 || f.node < 0 {
		return f, fmt.Errorf("it is incomplete")
	}
	if f.kind == faultWindow {
		f.length = windowAhead + windowOpen + windowRest
	}
	return f, nil
}

// strikesNode tells whether it is done to a zone node.
func (f fault) strikesNode() bool { return f.kind == faultKill || f.kind == faultStop }

// expects says what must be seen for this fault, for people.
func (f fault) expects() string {
	switch f.kind {
	case faultKill:
		return fmt.Sprintf("node %d comes back with a new incarnation, all regions are held again, only its own clients lose their socket, nobody sees what is not marked", f.node)
	case faultStop:
		return fmt.Sprintf("node %d says nothing until it holds a session again, all regions are held again, only its own clients may lose their socket", f.node)
	case faultStore:
		return "all nodes go on, no client loses its socket, and the store comes back with every record that it had"
	}
	return "all nodes freeze and thaw: no failover, no client loses its socket"
}

// before is what was so when a fault struck.
type before struct {
	nodes    []zoneNode
	losses   int
	gateways map[string]int
	records  map[string]bool // those in the store, if it is struck
}

// inject carries a fault out and returns when it is over and enough time went by. The error says which expectation was not
// met.
func (d *demo) inject(ctx context.Context, f fault) error {
	if f.kind == faultMove {
		return d.moveRegions(ctx, f)
	}
	if f.kind == faultCrowd {
		return d.crowd(ctx, f)
	}
	if f.kind == faultWindow {
		return d.moveInWindow(ctx, f)
	}
	d.say(fmt.Sprintf("fault %v: expected: %s", f, f.expects()))
	r := d.swarm.Report()
	was := before{nodes: slices.Clone(d.nodes), losses: r.Losses, gateways: r.Gateways}
	if f.kind == faultStore {
		var err error
		if was.records, err = d.site.records(ctx); err != nil {
			return err
		}
		if len(was.records) == 0 {
			return errors.New("the store holds no records: nothing can be shown with it")
		}
		d.say(fmt.Sprintf("fault %v: the store holds %d records", f, len(was.records)))
	}
	d.swarm.Excuse(time.Now().Add(f.length + recovery/2))
	if err := d.strike(ctx, f); err != nil {
		return err
	}
	return d.recovered(ctx, f, was)
}

// strike does the harm and ends it.
func (d *demo) strike(ctx context.Context, f fault) error {
	if f.kind == faultAPI {
		d.cluster.StopAPIServer()
		err := pause(ctx, f.length)
		if again := d.cluster.StartAPIServer(context.WithoutCancel(ctx)); err == nil {
			err = again
		}
		return err
	}
	if f.kind == faultStore {
		pid, err := d.cluster.PodPID(d.site.key.Namespace, v1alpha1.StoreName(d.site.key.Name)+"-0")
		if err != nil {
			return fmt.Errorf("fault %v: %w", f, err)
		}
		return tell(pid, syscall.SIGKILL)
	}
	if f.node >= len(d.nodes) {
		return fmt.Errorf("fault %v: the World has nodes 0 to %d", f, len(d.nodes)-1)
	}
	pid, err := d.cluster.PodPID(d.site.key.Namespace, d.nodes[f.node].name)
	if err != nil {
		return fmt.Errorf("fault %v: %w", f, err)
	}
	if f.kind == faultKill {
		return tell(pid, syscall.SIGKILL)
	}
	if err := tell(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	err = pause(ctx, f.length)
	if again := tell(pid, syscall.SIGCONT); err == nil {
		err = again
	}
	return err
}

func tell(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("sending %v to process %d: %w", sig, pid, err)
	}
	return nil
}

// recovered polls until all that is expected after a fault is so, for as long as recovery takes.
func (d *demo) recovered(ctx context.Context, f fault, was before) error {
	began := time.Now()
	var missing []string
	for time.Since(began) < recovery {
		ticks := d.watch.ticks()
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		d.watch.ask(ctx, d.known())
		if missing = append(d.unmet(ctx, f, was), stuck(ticks, d.watch.ticks())...); len(missing) == 0 {
			d.say(fmt.Sprintf("fault %v: recovered from after %.1f s", f, time.Since(began).Seconds()))
			return nil
		}
	}
	return fmt.Errorf("after fault %v: %s", f, strings.Join(missing, "; "))
}

// unmet lists which expectations are not met yet.
func (d *demo) unmet(ctx context.Context, f fault, was before) (missing []string) {
	nodes, err := d.site.nodes(ctx, len(was.nodes))
	if err != nil {
		return []string{oneLine(err.Error())}
	}
	owners, err := d.site.owners(ctx, d.grid)
	if err != nil {
		return []string{oneLine(err.Error())}
	}
	r := d.swarm.Report()
	missing = append(changedSessions(f, was.nodes, nodes), unowned(owners, nodes)...)
	if r.Connected < r.Bots {
		missing = append(missing, fmt.Sprintf("%d of %d players are connected", r.Connected, r.Bots))
	}
	if allowed := was.allowedLosses(f); r.Losses-was.losses > allowed {
		missing = append(missing, fmt.Sprintf("%d clients lost their socket, at most %d had to", r.Losses-was.losses, allowed))
	}
	if f.kind == faultStore {
		missing = append(missing, d.site.lostRecords(ctx, was.records)...)
	}
	d.remember(nodes)
	return missing
}

// allowedLosses is how many clients may lose their socket by a fault.
func (b before) allowedLosses(f fault) int {
	if !f.strikesNode() {
		return 0
	}
	return b.gateways[b.nodes[f.node].name]
}

// changedSessions compares the incarnations before and after a fault.
func changedSessions(f fault, was, is []zoneNode) (missing []string) {
	for i := range was {
		struck := f.strikesNode() && i == f.node
		switch newer := is[i].incarnation > was[i].incarnation; {
		case struck && f.kind == faultKill && !newer:
			missing = append(missing, fmt.Sprintf("%s has not begun a new life", was[i].name))
		case !struck && newer:
			missing = append(missing, fmt.Sprintf("%s began a new life (%d) and was not struck", was[i].name, is[i].incarnation))
		}
	}
	return missing
}

// stuck names the nodes that made no step between two looks.
func stuck(was, is map[string]float64) (missing []string) {
	for _, node := range slices.Sorted(maps.Keys(is)) {
		if is[node] == was[node] {
			missing = append(missing, node+" makes no steps")
		}
	}
	return missing
}

// unowned counts the regions that no present session holds.
func unowned(owners []string, nodes []zoneNode) []string {
	live := map[string]bool{}
	for _, n := range nodes {
		live[n.session()] = true
	}
	n := 0
	for _, o := range owners {
		if !live[o] {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d regions are held by nobody who lives", n)}
}
