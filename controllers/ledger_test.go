package controllers_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/hack/envtest"
)

// ledger is what a watch of the region Leases of a namespace shows: what each node has to do, and what happened. All nodes
// share one, so that 64 of them do not ask the API server for 4096 Leases each.
type ledger struct {
	mu sync.Mutex
	// todo, by node and Lease: free and ordered to it, or its own and ordered away. since is when that was first seen.
	todo  map[string]map[string]*coordinationv1.Lease
	since map[string]time.Time
	doer  map[string]string
	// last is the newest version of each Lease, holder that of each version, by name and resourceVersion.
	last   map[string]*coordinationv1.Lease
	holder map[string]string

	moving, mostMoving int
	moved              map[string]int // changes from one node to another without being free in between, by Lease
}

func startLedger(b *bench) *ledger {
	l := &ledger{
		todo: map[string]map[string]*coordinationv1.Lease{}, since: map[string]time.Time{}, doer: map[string]string{},
		last: map[string]*coordinationv1.Lease{}, holder: map[string]string{}, moved: map[string]int{},
	}
	leases, err := cache.New(b.cfg, cache.Options{
		Scheme: envtest.Scheme(b), DefaultNamespaces: map[string]cache.Config{b.ns: {}},
		DefaultLabelSelector: selectorOf(b, v1alpha1.LabelLease+"="+v1alpha1.LeaseKindRegion),
	})
	if err != nil {
		b.Fatalf("watching leases: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = leases.Start(ctx)
	}()
	b.Cleanup(func() { cancel(); <-done })
	informer, err := leases.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		b.Fatalf("watching leases: %v", err)
	}
	see := func(o any) { l.see(o.(*coordinationv1.Lease)) }
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, o any) { see(o) },
		DeleteFunc: func(o any) {
			if lease, ok := o.(*coordinationv1.Lease); ok {
				l.forget(lease.Name)
			}
		},
	})
	if err != nil {
		b.Fatalf("watching leases: %v", err)
	}
	return l
}

// see takes in a version of a Lease.
func (l *ledger) see(lease *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	former := l.last[lease.Name]
	if former != nil && nodeOf(former) != "" && nodeOf(lease) != "" && nodeOf(former) != nodeOf(lease) {
		l.moved[lease.Name]++
	}
	l.moving += onItsWay(lease) - onItsWay(former)
	l.mostMoving = max(l.mostMoving, l.moving)
	l.last[lease.Name] = lease
	l.holder[lease.Name+"@"+lease.ResourceVersion] = *lease.Spec.HolderIdentity
	doer := lease.Annotations[v1alpha1.AnnotationTarget]
	if node := nodeOf(lease); node == doer {
		doer = ""
	} else if node != "" {
		doer = node
	}
	l.assign(lease, doer)
}

func (l *ledger) assign(lease *coordinationv1.Lease, doer string) {
	was := l.doer[lease.Name]
	if former := l.todo[was][lease.Name]; former == nil || doer != was ||
		former.Annotations[v1alpha1.AnnotationTarget] != lease.Annotations[v1alpha1.AnnotationTarget] {
		l.since[lease.Name] = time.Now()
	}
	delete(l.todo[was], lease.Name)
	l.doer[lease.Name] = doer
	if doer == "" {
		return
	}
	if l.todo[doer] == nil {
		l.todo[doer] = map[string]*coordinationv1.Lease{}
	}
	l.todo[doer][lease.Name] = lease
}

func (l *ledger) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moving -= onItsWay(l.last[name])
	delete(l.last, name)
	delete(l.todo[l.doer[name]], name)
	delete(l.doer, name)
}

// task is a Lease that a node should write.
type task struct {
	lease *coordinationv1.Lease
	since time.Time
}

// of lists what a node has to do.
func (l *ledger) of(node string) []task {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tasks []task
	for _, name := range slices.Sorted(maps.Keys(l.todo[node])) {
		tasks = append(tasks, task{l.todo[node][name].DeepCopy(), l.since[name]})
	}
	return tasks
}

// holderAt is who held a region at a version of its Lease.
func (l *ledger) holderAt(lease *coordinationv1.Lease) (holder string, seen bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	holder, seen = l.holder[lease.Name+"@"+lease.ResourceVersion]
	return holder, seen
}

// counts are the regions on their way now, the most that ever were at once, and the changes of hands between live nodes.
func (l *ledger) counts() (moving, most, moved int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.moved {
		moved += n
	}
	return l.moving, l.mostMoving, moved
}

// holders counts the regions of each node.
func (l *ledger) holders() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, lease := range l.last {
		counts[nodeOf(lease)]++
	}
	return counts
}

func onItsWay(lease *coordinationv1.Lease) int {
	if lease != nil && nodeOf(lease) != "" && nodeOf(lease) != lease.Annotations[v1alpha1.AnnotationTarget] {
		return 1
	}
	return 0
}

// nodeOf is the node of a region's holder, "" if nobody holds it.
func nodeOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return ""
	}
	node, _, err := v1alpha1.ParseSessionID(*lease.Spec.HolderIdentity)
	if err != nil {
		panic(err)
	}
	return node
}
