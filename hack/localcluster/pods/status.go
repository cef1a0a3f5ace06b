package pods

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spatialcells/spatialcells/hack/localcluster/child"
)

const (
	firstResend = 200 * time.Millisecond
	lastResend  = 3 * time.Second
	callTimeout = 10 * time.Second
)

// status is what the pod says about itself. Its methods may be called from any goroutine.
type status struct {
	mu         sync.Mutex
	phase      corev1.PodPhase
	started    metav1.Time
	ip, hostIP string
	container  corev1.ContainerStatus
	conditions []corev1.PodCondition
	sent       []byte // the last patch the API took
}

// begin takes over what an earlier life of the runtime has reported.
func (s *status) begin(o *corev1.Pod) {
	s.phase, s.started = corev1.PodPending, metav1.Now()
	s.container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	if len(o.Spec.Containers) > 0 {
		s.container.Name, s.container.Image = o.Spec.Containers[0].Name, o.Spec.Containers[0].Image
		s.container.ImageID = s.container.Image
	}
	if o.Status.StartTime != nil {
		s.started = *o.Status.StartTime
	}
	if old := o.Status.ContainerStatuses; len(old) == 1 && old[0].ContainerID != "" {
		s.container.RestartCount = old[0].RestartCount + 1
		s.container.LastTerminationState = old[0].LastTerminationState
		if r := old[0].State.Running; r != nil {
			s.container.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "Unknown", Message: "ended with the runtime", StartedAt: r.StartedAt, FinishedAt: metav1.Now(), ContainerID: old[0].ContainerID,
			}}
		}
	}
	s.conditions = append(s.conditions, o.Status.Conditions...)
}

func (s *status) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *status) setAddresses(ip, hostIP string) { s.change(func() { s.ip, s.hostIP = ip, hostIP }) }

func (s *status) restartCount() (n int32) {
	s.change(func() { n = s.container.RestartCount })
	return n
}

func (s *status) waiting(reason, message string) {
	s.change(func() {
		s.container.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
		s.setReady(false)
	})
}

func (s *status) running(o *corev1.Pod, pid int) {
	c := &o.Spec.Containers[0]
	s.change(func() {
		s.phase = corev1.PodRunning
		s.container.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
		s.container.ContainerID = fmt.Sprintf("process://%s-%d-%d", o.UID, s.container.RestartCount, pid)
		started := c.StartupProbe == nil
		s.container.Started = &started
		s.setReady(started && c.ReadinessProbe == nil)
	})
}

// exited records the end of the process.
func (s *status) exited(e child.Exit) {
	reason := "Completed"
	if e.Code != 0 {
		reason = "Error"
	}
	s.change(func() {
		end := &corev1.ContainerStateTerminated{
			ExitCode: int32(e.Code), Signal: int32(e.Signal), Reason: reason,
			FinishedAt: metav1.NewTime(e.At), ContainerID: s.container.ContainerID,
		}
		if r := s.container.State.Running; r != nil {
			end.StartedAt = r.StartedAt
		}
		s.container.State = corev1.ContainerState{Terminated: end}
		s.setReady(false)
	})
}

// crashed turns the end just recorded into the last one: the container waits to be started again.
func (s *status) crashed(wait time.Duration) {
	s.change(func() {
		s.container.LastTerminationState = s.container.State
		s.container.RestartCount++
		s.container.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: fmt.Sprintf("starting again in %v", wait),
		}}
	})
}

// end makes the last end final.
func (s *status) end(e child.Exit) {
	s.change(func() {
		s.phase = corev1.PodSucceeded
		if e.Code != 0 {
			s.phase = corev1.PodFailed
		}
		if s.container.State.Terminated == nil && s.container.LastTerminationState.Terminated != nil {
			s.container.State, s.container.LastTerminationState = s.container.LastTerminationState, corev1.ContainerState{}
			s.container.RestartCount--
		}
	})
}

func (s *status) probed(ready, started bool) {
	s.change(func() {
		if s.container.State.Running != nil {
			s.container.Started = &started
			s.setReady(ready)
		}
	})
}

// setReady is called with the lock held.
func (s *status) setReady(ready bool) {
	s.container.Ready = ready
	if !ready && s.container.State.Running == nil {
		no := false
		s.container.Started = &no
	}
}

// condition is called with the lock held.
func (s *status) condition(t corev1.PodConditionType, ok bool, reason, message string) {
	v := corev1.ConditionFalse
	if ok {
		v, reason, message = corev1.ConditionTrue, "", ""
	}
	for i := range s.conditions {
		c := &s.conditions[i]
		if c.Type != t {
			continue
		}
		if c.Status != v {
			c.Status, c.LastTransitionTime = v, metav1.Now()
		}
		c.Reason, c.Message = reason, message
		return
	}
	s.conditions = append(s.conditions, corev1.PodCondition{Type: t, Status: v, Reason: reason, Message: message, LastTransitionTime: metav1.Now()})
}

// patch renders the strategic merge patch for the live object, whose other conditions stay.
func (s *status) patch(live *corev1.Pod) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := s.container.Ready
	reason, message := "", ""
	if !ready {
		reason, message = "ContainersNotReady", "container "+s.container.Name+" is not ready"
	}
	if s.phase == corev1.PodSucceeded {
		reason, message = "PodCompleted", ""
	}
	s.condition(corev1.PodReadyToStartContainers, s.ip != "", "", "")
	s.condition(corev1.PodInitialized, true, "", "")
	s.condition(corev1.ContainersReady, ready, reason, message)
	if gate := closedGate(live); ready && gate != "" {
		s.condition(corev1.PodReady, false, "ReadinessGatesNotReady", "condition "+gate+" is not True")
	} else {
		s.condition(corev1.PodReady, ready, reason, message)
	}
	var own []corev1.PodCondition
	for _, c := range s.conditions {
		switch c.Type {
		case corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady:
			own = append(own, c)
		}
	}
	st := map[string]any{
		"phase": s.phase, "startTime": s.started, "reason": nil, "message": nil,
		"conditions": own, "containerStatuses": []corev1.ContainerStatus{s.container},
	}
	if s.ip != "" {
		st["podIP"], st["podIPs"] = s.ip, []corev1.PodIP{{IP: s.ip}}
		st["hostIP"], st["hostIPs"] = s.hostIP, []corev1.HostIP{{IP: s.hostIP}}
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": live.UID}, "status": st})
}

// closedGate names a readiness gate of the pod that is not open.
func closedGate(live *corev1.Pod) string {
	for _, g := range live.Spec.ReadinessGates {
		open := false
		for _, c := range live.Status.Conditions {
			open = open || (c.Type == g.ConditionType && c.Status == corev1.ConditionTrue)
		}
		if !open {
			return string(g.ConditionType)
		}
	}
	return ""
}

func (p *pod) publish() { poke(p.reported) }

// keepReporting sends the newest status whenever it changes, until the returned function is called.
func (p *pod) keepReporting(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.reported:
				p.reportLast(ctx)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// reportLast sends the newest status again and again until the API takes it, or has forgotten the pod, or ctx ends.
func (p *pod) reportLast(ctx context.Context) {
	wait := firstResend
	for {
		err := p.send(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		p.rt.cfg.Log.Debug("status not taken yet", "pod", p.obj.Name, "error", err.Error())
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, lastResend)
	}
}

func (p *pod) send(ctx context.Context) error {
	patch, err := p.status.patch(p.latest())
	if err != nil {
		return err
	}
	p.status.mu.Lock()
	unchanged := bytes.Equal(patch, p.status.sent)
	p.status.mu.Unlock()
	if unchanged {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = p.rt.cfg.Client.CoreV1().Pods(p.obj.Namespace).Patch(ctx, p.obj.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another pod by now
	case apierrors.IsInvalid(err):
		p.rt.cfg.Log.Error("status refused", "pod", p.obj.Name, "error", err.Error())
	case err != nil:
		return err
	}
	p.status.mu.Lock()
	p.status.sent = patch
	p.status.mu.Unlock()
	return nil
}

// remove deletes a pod whose processes are gone, as a kubelet does: at once and only this uid.
func (r *Runtime) remove(o *corev1.Pod) {
	zero := int64(0)
	opts := metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(o.UID))}
	wait := firstResend
	for {
		ctx, cancel := context.WithTimeout(r.ctx, callTimeout)
		err := r.cfg.Client.CoreV1().Pods(o.Namespace).Delete(ctx, o.Name, opts)
		cancel()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		r.cfg.Log.Debug("pod not removed yet", "pod", o.Name, "error", err.Error())
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, lastResend)
	}
}

func (p *pod) event(kind, reason, message string) {
	p.rt.cfg.Events.Event(p.obj, kind, reason, message)
}
