package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	metricRegions    = "spatialcells_zone_regions"
	metricRecovering = "spatialcells_zone_regions_recovering"

	// quickFailover is how long regions may stand still where it is known that their node is dead, at the median.
	quickFailover = 3 * time.Second
	// slowFailover is how much longer than a lease duration they may stand still where only silence tells.
	slowFailover = 3 * time.Second
	// lookPeriod is the time between two looks at whether regions are simulated. A node shows it twice a second, so what is
	// measured is up to half a second too long, and never too short.
	lookPeriod = 50 * time.Millisecond
	// fewestRegions is how many a node must hold to be struck: one that holds none shows nothing.
	fewestRegions = 16
)

// death is a way in which nodes end.
type death struct {
	name string
	// victims is how many nodes it strikes at once.
	victims int
	// silent: only the lease tells that the nodes are gone.
	silent bool
	strike func(*drill, context.Context, []zoneNode) error
	// after undoes the fault once the regions are simulated again; nil: there is nothing to undo.
	after func(*drill, context.Context, []zoneNode) error
}

var (
	killed     = &death{name: "kill -9, starts again in its pod", victims: 1, strike: (*drill).kill}
	deleted    = &death{name: "kill -9, pod deleted, goes elsewhere", victims: 1, strike: (*drill).deletePods}
	stopped    = &death{name: "stopped (SIGSTOP)", victims: 1, silent: true, strike: (*drill).stop, after: (*drill).resume}
	cutOff     = &death{name: "cut off from everything", victims: 1, silent: true, strike: (*drill).cutOff, after: (*drill).healAll}
	forced     = &death{name: "pod deleted by force: no word of its end", victims: 1, silent: true, strike: (*drill).forceDelete}
	two        = &death{name: "two nodes killed at once", victims: 2, strike: (*drill).kill}
	twoDeleted = &death{name: "two nodes' pods deleted at once", victims: 2, strike: (*drill).deletePods}
	unwatched  = &death{name: "pod deleted while the operator is dead", victims: 1, silent: true, strike: (*drill).deleteUnwatched, after: (*drill).startOperator}
	everybody  = &death{name: "all nodes killed at once", victims: -1, silent: true, strike: (*drill).kill}
)

// failoverRounds is the script: 20 rounds of the five ways, and those that happen to more than one at once. Two are killed
// first: a container that has crashed before is started later and later, which is not the World's doing.
var failoverRounds = []*death{
	two, deleted, deleted,
	killed, stopped, deleted, killed, cutOff, killed, forced, deleted,
	killed, stopped, deleted, killed, cutOff, deleted, killed, stopped, cutOff, forced,
	twoDeleted, unwatched, everybody,
}

// outcome is what the rounds of one way showed, in seconds.
type outcome struct {
	Name   string    `json:"name"`
	Silent bool      `json:"onlySilenceTells"`
	Rounds []float64 `json:"rounds"`  // until the last region of a round
	All    []float64 `json:"regions"` // until each region
}

// failovers ends nodes in every way, and measures how long it takes until their regions are simulated again.
func (r *drill) failovers(ctx context.Context) error {
	outcomes := map[*death]*outcome{}
	var order []*outcome
	defer func() { r.report, r.data = r.table(order), order }()
	for i, way := range failoverRounds {
		o := outcomes[way]
		if o == nil {
			o = &outcome{Name: way.name, Silent: way.silent}
			outcomes[way], order = o, append(order, o)
		}
		if err := r.round(ctx, way, o); err != nil {
			return fmt.Errorf("round %d, %s: %w", i+1, way.name, err)
		}
	}
	r.hold(order)
	return nil
}

// round strikes once, measures, and waits until the world is whole again.
func (r *drill) round(ctx context.Context, way *death, o *outcome) error {
	victims, err := r.victims(ctx, way.victims)
	if err != nil {
		return err
	}
	dead, lost := map[string]bool{}, map[string]bool{}
	for _, n := range victims {
		dead[n.session()] = true
		for _, name := range r.ledger.held(n.session()) {
			lost[name] = true
		}
	}
	r.excuse(2 * r.leaseDuration())
	r.struck = time.Now()
	if err := way.strike(r, ctx, victims); err != nil {
		return err
	}
	took, err := r.simulatedAgain(ctx, r.struck, dead, lost)
	if way.after != nil {
		err = errors.Join(err, way.after(r, ctx, victims))
	}
	if err != nil {
		return err
	}
	for _, t := range took {
		o.All = append(o.All, t.Seconds())
	}
	last := slices.Max(took)
	o.Rounds = append(o.Rounds, last.Seconds())
	if err := r.calm(ctx); err != nil {
		return err
	}
	r.say(fmt.Sprintf("%s: %s, %d regions simulated again after %.2f s, the world whole after %.1f s; violations %d; %s",
		way.name, names(victims), len(lost), last.Seconds(), time.Since(r.struck).Seconds(), r.sofar().ViolationCount, load()))
	return nil
}

func names(nodes []zoneNode) string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.session()
	}
	return strings.Join(list, ", ")
}

// victims picks nodes that hold regions: those whose containers crashed least often, for one that crashes often is started
// later and later, and among them those that hold most. -1 means all.
func (r *drill) victims(ctx context.Context, n int) ([]zoneNode, error) {
	nodes, err := r.site.nodes(ctx, len(r.known()))
	if err != nil || n < 0 {
		return nodes, err
	}
	type candidate struct {
		zoneNode
		restarts int32
		held     int
	}
	var list []candidate
	for _, z := range nodes {
		pod := &corev1.Pod{}
		if err := r.site.api.Get(ctx, client.ObjectKey{Namespace: r.site.key.Namespace, Name: z.name}, pod); err != nil {
			return nil, fmt.Errorf("looking for a node to strike: %w", err)
		}
		c := candidate{z, 0, len(r.ledger.held(z.session()))}
		for _, s := range pod.Status.ContainerStatuses {
			c.restarts += s.RestartCount
		}
		if c.held >= fewestRegions {
			list = append(list, c)
		}
	}
	if len(list) < n {
		return nil, fmt.Errorf("only %d of %d nodes hold %d regions or more", len(list), len(nodes), fewestRegions)
	}
	slices.SortFunc(list, func(a, b candidate) int {
		if a.restarts != b.restarts {
			return int(a.restarts - b.restarts)
		}
		return b.held - a.held
	})
	picked := make([]zoneNode, n)
	for i := range picked {
		picked[i] = list[i].zoneNode
	}
	return picked, nil
}

// simulatedAgain waits until each lost region is held by a session that lives and was not struck, and whose node says that it
// simulates all that it holds. It returns how long that took for each.
func (r *drill) simulatedAgain(ctx context.Context, began time.Time, dead, lost map[string]bool) ([]time.Duration, error) {
	var took []time.Duration
	missing := make(map[string]bool, len(lost))
	for name := range lost {
		missing[name] = true
	}
	for len(missing) > 0 {
		if err := pause(ctx, lookPeriod); err != nil {
			return nil, err
		}
		if time.Since(began) > recovery {
			return nil, fmt.Errorf("%d of %d regions are not simulated after %v", len(missing), len(lost), recovery)
		}
		for _, c := range r.ledger.heirs(missing) {
			if dead[c.id] || !r.simulates(ctx, c) {
				continue
			}
			for _, name := range c.regions {
				delete(missing, name)
				took = append(took, time.Since(began))
			}
		}
	}
	return took, nil
}

// simulates asks a node whether it simulates all that it holds by its Leases.
func (r *drill) simulates(ctx context.Context, c claim) bool {
	said, err := scrape(ctx, zoneNode{gateway: c.gateway}.http())
	return err == nil && said.gauges[metricRegions] >= float64(c.all) && said.gauges[metricRecovering] == 0
}

// signal sends a signal to the nodes' processes.
func (r *drill) signal(nodes []zoneNode, sig syscall.Signal) error {
	var errs []error
	for _, n := range nodes {
		pid, err := r.cluster.PodPID(r.site.key.Namespace, n.name)
		if err == nil {
			err = tell(pid, sig)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *drill) kill(_ context.Context, nodes []zoneNode) error {
	return r.signal(nodes, syscall.SIGKILL)
}

func (r *drill) stop(_ context.Context, nodes []zoneNode) error {
	r.struck = time.Now()
	return r.signal(nodes, syscall.SIGSTOP)
}

func (r *drill) resume(_ context.Context, nodes []zoneNode) error {
	return r.signal(nodes, syscall.SIGCONT)
}

// deletePods has the nodes killed while their pods are deleted: no grace is used, and the API learns of their end.
func (r *drill) deletePods(ctx context.Context, nodes []zoneNode) error {
	if err := r.stop(ctx, nodes); err != nil { // it shall not stop in order when it hears of it
		return err
	}
	return errors.Join(r.remove(ctx, nodes, 5), r.signal(nodes, syscall.SIGKILL))
}

// forceDelete is what somebody does whose machine is gone: the pods are forgotten at once, and nobody learns of their end.
func (r *drill) forceDelete(ctx context.Context, nodes []zoneNode) error {
	if err := r.stop(ctx, nodes); err != nil {
		return err
	}
	return r.remove(ctx, nodes, 0)
}

func (r *drill) remove(ctx context.Context, nodes []zoneNode, grace int64) error {
	var errs []error
	for _, n := range nodes {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: n.name, Namespace: r.site.key.Namespace}}
		errs = append(errs, r.site.api.Delete(ctx, pod, client.GracePeriodSeconds(grace)))
	}
	return errors.Join(errs...)
}

func (r *drill) cutOff(ctx context.Context, nodes []zoneNode) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, r.cuts.cut(ctx, n.host()))
	}
	return errors.Join(errs...)
}

func (r *drill) healAll(context.Context, []zoneNode) error { return r.cuts.heal() }

// operatorKey names the operator's Deployment.
var operatorKey = client.ObjectKey{Namespace: "spatialcells-system", Name: "spatialcells-operator"}

// deleteUnwatched deletes the pods while no operator runs, and starts one soon after.
func (r *drill) deleteUnwatched(ctx context.Context, nodes []zoneNode) error {
	if err := r.scaleOperator(ctx, 0); err != nil {
		return err
	}
	for {
		pods := &corev1.PodList{}
		err := r.site.api.List(ctx, pods, client.InNamespace(operatorKey.Namespace))
		if err == nil && len(pods.Items) == 0 {
			break
		}
		if err := pause(ctx, lookPeriod); err != nil {
			return err
		}
	}
	if err := r.deletePods(ctx, nodes); err != nil {
		return err
	}
	if err := pause(ctx, r.leaseDuration()/2); err != nil {
		return err
	}
	return r.scaleOperator(ctx, 1)
}

// startOperator makes sure that one runs, whatever happened.
func (r *drill) startOperator(ctx context.Context, _ []zoneNode) error {
	return r.scaleOperator(ctx, 1)
}

func (r *drill) scaleOperator(ctx context.Context, replicas int32) error {
	for {
		operator := &appsv1.Deployment{}
		if err := r.site.api.Get(ctx, operatorKey, operator); err != nil {
			return fmt.Errorf("reading the operator's Deployment: %w", err)
		}
		operator.Spec.Replicas = &replicas
		err := r.site.api.Update(ctx, operator)
		if err == nil || !apierrors.IsConflict(err) {
			return err
		}
	}
}
