package controllers

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// maxEndings bounds the deleted pods that are remembered; the oldest are forgotten first.
const maxEndings = 256

// endings are deleted pods as they were seen last, by the holder identity of their sessions.
//
// A kubelet reports that a pod's containers have ended and removes the pod a moment later, so hardly a reconcile finds it
// in between: by then there is no pod, or its successor. The word of its end is in the last event about it. Whoever misses
// that, a new operator for one, waits until the Lease stood still for its duration.
type endings struct {
	mu    sync.Mutex
	pods  map[string]*corev1.Pod
	order []string
}

func (e *endings) note(pod *corev1.Pod) {
	holder := v1alpha1.HolderIdentity(pod.Name, string(pod.UID))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods == nil {
		e.pods = map[string]*corev1.Pod{}
	}
	if e.pods[holder] == nil {
		e.order = append(e.order, holder)
	}
	e.pods[holder] = pod
	if len(e.order) > maxEndings {
		delete(e.pods, e.order[0])
		e.order = append(e.order[:0], e.order[1:]...)
	}
}

// of returns the deleted pod that held a session, nil if none was seen.
func (e *endings) of(holder string) *corev1.Pod {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pods[holder]
}

// keepsEndings notes each deleted pod before it wakes the reconciler.
type keepsEndings struct {
	handler.EventHandler
	endings *endings
}

// Delete implements handler.EventHandler.
func (k keepsEndings) Delete(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if pod, ok := e.Object.(*corev1.Pod); ok {
		k.endings.note(pod)
	}
	k.EventHandler.Delete(ctx, e, q)
}
