package controllers

import (
	"context"
	"fmt"
	"net"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// ensureStore runs the development store: one pod of the zone node's image, in memory. The zone nodes' Service for it is
// addressed by its ClusterIP, so that no cluster DNS is needed.
func (r *WorldReconciler) ensureStore(ctx context.Context, s *scene) error {
	if store := s.world.Spec.Store; store != nil && store.External != nil {
		s.verdicts[v1alpha1.ConditionStoreReady] = verdict{
			false, v1alpha1.ReasonNotActedOn,
			"spec.store.external is not acted on by this version, so no zone node is started. Make the World anew without spec.store for a development store.",
		}
		s.waitFor(v1alpha1.ReasonNotActedOn, "zone nodes wait for a store")
		return nil
	}
	if err := r.ensure(ctx, s, s.storeService()); err != nil {
		return err
	}
	if err := r.ensure(ctx, s, s.storeStatefulSet()); err != nil {
		return err
	}
	ready := podReady(s.storePod)
	s.verdicts[v1alpha1.ConditionStoreReady] = verdict{
		ready, v1alpha1.ReasonDevelopmentStore,
		"the store is one pod that keeps nothing across its own restart: good for trying things out.",
	}
	if ready {
		return nil
	}
	s.verdicts[v1alpha1.ConditionStoreReady] = verdict{
		false, v1alpha1.ReasonProgressing,
		fmt.Sprintf("waiting for pod %s-0 to be ready.", v1alpha1.StoreName(s.world.Name)),
	}
	if s.statefulSet == nil { // nodes that run already go on without it
		s.waitFor(v1alpha1.ReasonProgressing, "zone nodes wait for the store")
	}
	return nil
}

// waitFor stops making children in this reconcile, and says why.
func (s *scene) waitFor(reason, message string) {
	s.verdicts[v1alpha1.ConditionNodesUpToDate] = verdict{false, reason, message}
}

// storeAddress is where zone nodes find the store, "" while its Service has no address.
func (r *WorldReconciler) storeAddress(ctx context.Context, s *scene) (string, error) {
	service := &corev1.Service{}
	key := s.key(v1alpha1.StoreName(s.world.Name))
	if err := r.Get(ctx, key, service); err != nil {
		if err := r.Live.Get(ctx, key, service); err != nil {
			return "", fmt.Errorf("reading service %s: %w", key.Name, err)
		}
	}
	if service.Spec.ClusterIP == "" {
		return "", nil
	}
	return "redis://" + net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(portStore)), nil
}

func (s *scene) storeService() *corev1.Service {
	return &corev1.Service{ObjectMeta: s.meta(v1alpha1.StoreName(s.world.Name)), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: selector(s.world.Name, componentStore),
		Ports: []corev1.ServicePort{{Name: "redis", Port: portStore, TargetPort: intstr.FromInt32(portStore), Protocol: corev1.ProtocolTCP}},
	}}
}

func (s *scene) storeStatefulSet() *appsv1.StatefulSet {
	name := v1alpha1.StoreName(s.world.Name)
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(portStore)}},
		PeriodSeconds: 2, TimeoutSeconds: 2, FailureThreshold: 3, SuccessThreshold: 1,
	}
	return &appsv1.StatefulSet{ObjectMeta: s.meta(name), Spec: appsv1.StatefulSetSpec{
		Replicas:       new(int32(1)),
		ServiceName:    name,
		Selector:       &metav1.LabelSelector{MatchLabels: selector(s.world.Name, componentStore)},
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: podLabels(s.world.Name, componentStore)},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken:  new(false),
				SecurityContext:               restrictedPod(),
				TerminationGracePeriodSeconds: new(int64(10)),
				Containers: []corev1.Container{{
					Name: "store", Image: s.image, Args: []string{"store", "--listen-port=" + strconv.Itoa(portStore)},
					SecurityContext: restrictedContainer(), ReadinessProbe: probe,
					Ports: []corev1.ContainerPort{{Name: "redis", ContainerPort: portStore, Protocol: corev1.ProtocolTCP}},
				}},
			},
		},
	}}
}
