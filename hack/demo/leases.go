package main

import (
	"context"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// ledger is who holds what, as a watch of the World's Leases shows it.
type ledger struct {
	mu       sync.Mutex
	sessions map[string]session // by node
	regions  map[string]string  // session by Lease
}

// session is a session Lease.
type session struct {
	id, pod, gateway string // pod is empty if nobody holds it
}

// watchLeases follows the World's Leases until ctx ends, through any outage of the API server.
func (d *demo) watchLeases(ctx context.Context) (*ledger, error) {
	set, err := kubernetes.NewForConfig(d.cluster.Config())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	l := &ledger{sessions: map[string]session{}, regions: map[string]string{}}
	factory := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(d.site.key.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.LabelWorld + "=" + d.site.key.Name }))
	leases := factory.Coordination().V1().Leases().Informer()
	handler, err := leases.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: l.note, UpdateFunc: func(_, o any) { l.note(o) }})
	if err != nil {
		return nil, fmt.Errorf("watching leases: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return nil, fmt.Errorf("watching leases: %w", context.Cause(ctx))
	}
	return l, nil
}

func (l *ledger) note(o any) {
	lease, ok := o.(*coordinationv1.Lease)
	if !ok {
		return
	}
	holder, life := "", int32(0)
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.LeaseTransitions != nil {
		life = *lease.Spec.LeaseTransitions
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch lease.Labels[v1alpha1.LabelLease] {
	case v1alpha1.LeaseKindRegion:
		l.regions[lease.Name] = holder
	case v1alpha1.LeaseKindSession:
		l.sessions[lease.Name] = session{fmt.Sprintf("%s#%d", lease.Name, life), holder, lease.Annotations[v1alpha1.AnnotationGateway]}
	}
}

// session returns the session that a node has, or had last.
func (l *ledger) session(node string) session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[node]
}

// held lists the regions' Leases that a session holds.
func (l *ledger) held(session string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for name, holder := range l.regions {
		if holder == session {
			list = append(list, name)
		}
	}
	return list
}

// orphans counts the regions that no live session holds.
func (l *ledger) orphans() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	live := l.live()
	n := 0
	for _, holder := range l.regions {
		if _, ok := live[holder]; !ok {
			n++
		}
	}
	return n
}

// live lists the sessions that are held; called with mu held.
func (l *ledger) live() map[string]session {
	live := map[string]session{}
	for _, s := range l.sessions {
		if s.pod != "" {
			live[s.id] = s
		}
	}
	return live
}

// claim is a live session that holds some of the regions that are looked for.
type claim struct {
	session
	regions []string
	all     int // how many it holds in all
}

// heirs lists the live sessions that hold some of the regions.
func (l *ledger) heirs(regions map[string]bool) []claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	claims := map[string]*claim{}
	for id, s := range l.live() {
		claims[id] = &claim{session: s}
	}
	for name, holder := range l.regions {
		if c := claims[holder]; c != nil {
			c.all++
			if regions[name] {
				c.regions = append(c.regions, name)
			}
		}
	}
	var list []claim
	for _, c := range claims {
		if len(c.regions) > 0 {
			list = append(list, *c)
		}
	}
	return list
}
