package pods

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/spatialcells/spatialcells/hack/localcluster/child"
)

// Config is what a Runtime needs. All fields are required.
type Config struct {
	Dir       string // below it: pods/<uid>, logs/pods
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Events    record.EventRecorder
	Keeper    *child.Keeper
	Log       *slog.Logger

	Server string // URL of the API server, for the pods' kubeconfigs
	CAFile string

	Machines map[string]string                // machine name -> its address
	Image    func(ref string) (string, error) // image reference -> binary; a container starts with what it returns then
	Network  *Addresses                       // pod addresses
}

// Runtime runs the pods bound to its machines.
type Runtime struct {
	cfg    Config
	lister corelisters.PodLister
	logs   string

	ctx    context.Context // the runtime's life: nothing may be started or reported after it
	cancel context.CancelFunc

	mu      sync.Mutex
	pods    map[types.UID]*pod
	stopped bool
	wg      sync.WaitGroup
}

// New makes a Runtime and registers its handlers; it acts once the informers are started.
func New(cfg Config) (*Runtime, error) {
	ctx, cancel := context.WithCancel(context.Background())
	core := cfg.Informers.Core().V1()
	r := &Runtime{
		cfg: cfg, ctx: ctx, cancel: cancel,
		lister: core.Pods().Lister(),
		logs:   filepath.Join(cfg.Dir, "logs", "pods"),
		pods:   map[types.UID]*pod{},
	}
	_, err1 := core.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.see(o.(*corev1.Pod)) },
		UpdateFunc: func(old, o any) { r.update(old.(*corev1.Pod), o.(*corev1.Pod)) },
		DeleteFunc: func(o any) { r.gone(o) },
	})
	_, err2 := core.Secrets().Informer().AddEventHandler(r.changes("secret"))
	_, err3 := core.ConfigMaps().Informer().AddEventHandler(r.changes("configmap"))
	if err := errors.Join(err1, err2, err3); err != nil {
		cancel()
		return nil, fmt.Errorf("registering handlers: %w", err)
	}
	return r, nil
}

// Stop ends every container (SIGTERM, SIGKILL after the grace) and returns when all are reaped. The pods stay in the
// API: a later Runtime starts them again.
func (r *Runtime) Stop(grace time.Duration) {
	r.mu.Lock()
	r.stopped = true
	for _, p := range r.pods {
		p.abandon(grace)
	}
	r.mu.Unlock()
	timer := time.AfterFunc(grace+time.Second, r.cancel) // an unreachable API must not hold the stop up
	r.wg.Wait()
	timer.Stop()
	r.cancel()
}

// PID returns the process id of a pod's running container.
func (r *Runtime) PID(namespace, name string) (int, error) {
	p := r.find(namespace, name)
	if p == nil {
		return 0, fmt.Errorf("pod %s/%s does not run on this machine", namespace, name)
	}
	if proc := p.process(); proc != nil {
		return proc.PID(), nil
	}
	return 0, fmt.Errorf("pod %s/%s has no running container", namespace, name)
}

// find returns the latest pod of that name, or nil.
func (r *Runtime) find(namespace, name string) *pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found *pod
	for _, p := range r.pods {
		if p.obj.Namespace == namespace && p.obj.Name == name && (found == nil || p.seq > found.seq) {
			found = p
		}
	}
	return found
}

func (r *Runtime) ours(o *corev1.Pod) bool {
	_, ok := r.cfg.Machines[o.Spec.NodeName]
	return ok
}

// see is told of every state of every pod; it must not block.
func (r *Runtime) see(o *corev1.Pod) {
	if !r.ours(o) {
		return
	}
	finished := o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
	p := r.get(o, o.DeletionTimestamp == nil && !finished)
	switch {
	case p == nil && o.DeletionTimestamp != nil: // finished long ago, or run by a life before this one
		r.removeLater(o)
	case p == nil:
	case o.DeletionTimestamp != nil:
		p.update(o)
		p.halt(graceOf(o))
	default:
		p.update(o)
	}
}

func graceOf(o *corev1.Pod) time.Duration {
	if s := o.DeletionGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 0
}

// get returns the running pod with the object's uid; with start it starts one when there is none.
func (r *Runtime) get(o *corev1.Pod, start bool) *pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pods[o.UID]; p != nil || !start || r.stopped {
		return p
	}
	p := newPod(r, o)
	for _, other := range r.pods {
		if other.obj.Namespace == o.Namespace && other.obj.Name == o.Name {
			p.predecessors = append(p.predecessors, other)
			other.halt(0)
		}
	}
	r.pods[o.UID] = p
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		p.run()
		r.mu.Lock()
		delete(r.pods, o.UID)
		r.mu.Unlock()
	}()
	return p
}

func (r *Runtime) update(old, o *corev1.Pod) {
	if old.UID != o.UID { // the watch missed the deletion
		r.gone(old)
	}
	r.see(o)
}

func (r *Runtime) gone(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	obj, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	p := r.pods[obj.UID]
	r.mu.Unlock()
	if p != nil {
		p.vanished()
	}
}

func (r *Runtime) removeLater(o *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		r.remove(o)
	}()
}

// changes wakes the pods that use a secret or configMap when it changes.
func (r *Runtime) changes(kind string) cache.ResourceEventHandlerFuncs {
	wake := func(o any) {
		if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = t.Obj
		}
		meta, ok := o.(metav1.Object)
		if !ok {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, p := range r.pods {
			if p.obj.Namespace == meta.GetNamespace() && p.uses(kind, meta.GetName()) {
				p.refreshSoon()
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, o any) { wake(o) }, DeleteFunc: wake}
}
