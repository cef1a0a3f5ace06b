package controllers

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const (
	// DefaultStoreImage is the server of a managed store whose World names none. A store keeps the image it began with.
	DefaultStoreImage = "docker.io/valkey/valkey:8.1"
	// defaultStoreSize is that of its volume.
	defaultStoreSize = "10Gi"
	// storeGraceSeconds is what the server is given to finish the rewriting of its file.
	storeGraceSeconds = 60

	// Where the server of a managed store finds its password, and keeps its data.
	storeSecretMount = "/etc/spatialcells/store"
	storeDataMount   = "/data"
	storeConfigKey   = "auth.conf"
	storeVolume      = "data"
	containerStore   = "store"

	// Where zone nodes find what they need to reach the store.
	storeCredentialsMount = "/etc/spatialcells/store-credentials"
	storeCAMount          = "/etc/spatialcells/store-ca"
)

// externalStore is nil for a managed store.
func (s *scene) externalStore() *v1alpha1.ExternalStore {
	if s.world.Spec.Store == nil {
		return nil
	}
	return s.world.Spec.Store.External
}

func (s *scene) managedStore() v1alpha1.ManagedStore {
	if s.world.Spec.Store == nil || s.world.Spec.Store.Managed == nil {
		return v1alpha1.ManagedStore{}
	}
	return *s.world.Spec.Store.Managed
}

// ensureStore sees to it that there is a store, and says what the last look at it found. Nothing here waits for a store.
func (r *WorldReconciler) ensureStore(ctx context.Context, s *scene) error {
	if err := r.learnTerrain(ctx, s); err != nil {
		return err
	}
	url := externalURL(s.externalStore())
	if url == "" {
		if err := r.ensureManagedStore(ctx, s); err != nil {
			return err
		}
		var err error
		if url, err = r.managedURL(ctx, s); err != nil {
			return err
		}
		if url == "" {
			s.waitFor(v1alpha1.ReasonProgressing, "zone nodes wait for the address of the store's Service")
			return nil
		}
	}
	s.store = r.lookAtStore(s, url)
	if s.store.finding == nil && s.storeJudgedBefore() {
		s.holdNodes = true // what was found before stands until this process has looked itself
		return nil
	}
	v := s.storeVerdict()
	s.verdicts[v1alpha1.ConditionStoreReady] = v
	s.storeID = s.store.identity(s.storeID)
	switch {
	case v.reason == v1alpha1.ReasonSecretMissing && s.externalStore() == nil:
		delete(s.memory.secrets, storeSecretName(s.world.Name)) // it was deleted, and is made anew by the next reconcile
		s.holdNodes = true
	case v.reason == v1alpha1.ReasonWrongStore, v.reason == v1alpha1.ReasonSecretMissing:
		return &blocked{v.reason, v.message}
	case v.ok && s.storeID != "":
	case s.statefulSet == nil || s.storeID == "":
		s.waitFor(waitReason(v), "zone nodes wait for the store: "+v.message)
	case !s.store.reachKnown():
		s.holdNodes = true
	}
	return nil
}

// waitReason is why zone nodes wait: for what StoreReady is False.
func waitReason(v verdict) string {
	if v.ok {
		return v1alpha1.ReasonProgressing
	}
	return v.reason
}

// storeJudgedBefore tells whether an earlier process, or this one before it forgot, has seen the store.
func (s *scene) storeJudgedBefore() bool { return s.statefulSet != nil && s.storeID != "" }

// waitFor stops making children in this reconcile, and says why.
func (s *scene) waitFor(reason, message string) {
	s.verdicts[v1alpha1.ConditionNodesUpToDate] = verdict{false, reason, message}
}

// externalURL is where an external store is, "" for a managed one.
func externalURL(store *v1alpha1.ExternalStore) string {
	if store == nil {
		return ""
	}
	scheme, path := "redis", ""
	if store.CASecretName != "" {
		scheme = "rediss"
	}
	if store.Mode == v1alpha1.StoreSentinel {
		scheme += "+sentinel"
		path = "/" + store.PrimaryName
	}
	return scheme + "://" + strings.Join(store.Addresses, ",") + path
}

// managedURL is where zone nodes find the managed store, "" while its Service has no address. The address is the Service's
// ClusterIP, so that no cluster DNS is needed.
func (r *WorldReconciler) managedURL(ctx context.Context, s *scene) (string, error) {
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

func (r *WorldReconciler) ensureManagedStore(ctx context.Context, s *scene) error {
	if err := r.ensureStoreSecret(ctx, s); err != nil {
		return err
	}
	if err := r.ensure(ctx, s, s.storeService()); err != nil {
		return err
	}
	image, err := r.storeImage(ctx, s)
	if err != nil {
		return err
	}
	return r.ensure(ctx, s, s.storeStatefulSet(image))
}

// storeImage is what the spec says, else what the store began with: an operator upgrade never changes a server that has data.
func (r *WorldReconciler) storeImage(ctx context.Context, s *scene) (string, error) {
	if image := s.managedStore().Image; image != "" {
		return image, nil
	}
	have, err := r.find(ctx, s, &appsv1.StatefulSet{ObjectMeta: s.meta(v1alpha1.StoreName(s.world.Name))})
	if err != nil || have == nil {
		return DefaultStoreImage, err
	}
	set := &appsv1.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(have.Object, set); err != nil {
		return "", fmt.Errorf("reading StatefulSet %s: %w", have.GetName(), err)
	}
	for _, c := range set.Spec.Template.Spec.Containers {
		if c.Name == containerStore && c.Image != "" {
			return c.Image, nil
		}
	}
	return DefaultStoreImage, nil
}

func (s *scene) storeService() *corev1.Service {
	return &corev1.Service{ObjectMeta: s.meta(v1alpha1.StoreName(s.world.Name)), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: selector(s.world.Name, componentStore),
		Ports: []corev1.ServicePort{{Name: "redis", Port: portStore, TargetPort: intstr.FromInt32(portStore), Protocol: corev1.ProtocolTCP}},
	}}
}

// storeArgs configure the server so that it acknowledges nothing that is not on the disk, and throws nothing away. The
// password is in a file that it reads first: arguments are seen by everybody who may list processes or pods.
func storeArgs() []string {
	return []string{
		storeSecretMount + "/" + storeConfigKey,
		"--port", strconv.Itoa(portStore),
		"--dir", storeDataMount,
		"--appendonly", "yes",
		"--appendfsync", "always",
		"--no-appendfsync-on-rewrite", "no",
		"--save", "",
		"--maxmemory-policy", "noeviction",
	}
}

func (s *scene) storeStatefulSet(image string) *appsv1.StatefulSet {
	name, managed := v1alpha1.StoreName(s.world.Name), s.managedStore()
	return &appsv1.StatefulSet{ObjectMeta: s.meta(name), Spec: appsv1.StatefulSetSpec{
		Replicas:       new(int32(1)),
		ServiceName:    name,
		Selector:       &metav1.LabelSelector{MatchLabels: selector(s.world.Name, componentStore)},
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		// The claim has no owner: it outlives the World, like the seed of the terrain that the entities stand on.
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{storeClaim(managed.Storage)},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: podLabels(s.world.Name, componentStore)},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken:  new(false),
				SecurityContext:               restrictedPod(),
				TerminationGracePeriodSeconds: new(int64(storeGraceSeconds)),
				Containers:                    []corev1.Container{storeContainer(image, managed.Resources)},
				Volumes:                       []corev1.Volume{secretVolume("auth", storeSecretName(s.world.Name), storeConfigKey)},
			},
		},
	}}
}

func storeContainer(image string, resources v1alpha1.Resources) corev1.Container {
	return corev1.Container{
		Name: containerStore, Image: image, Command: []string{"valkey-server"}, Args: storeArgs(),
		SecurityContext: restrictedContainer(),
		Resources:       corev1.ResourceRequirements{Requests: resourceList(resources.Requests), Limits: resourceList(resources.Limits)},
		Ports:           []corev1.ContainerPort{{Name: "redis", ContainerPort: portStore, Protocol: corev1.ProtocolTCP}},
		// Whether it serves is what the operator finds out, with the password. No liveness probe: one that kills a server
		// which is reading a large file would have it begin anew for ever.
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(portStore)}},
			PeriodSeconds: 2, TimeoutSeconds: 2, FailureThreshold: 3, SuccessThreshold: 1,
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "auth", MountPath: storeSecretMount, ReadOnly: true},
			{Name: storeVolume, MountPath: storeDataMount},
		},
	}
}

func storeClaim(storage v1alpha1.StoreStorage) corev1.PersistentVolumeClaim {
	size := resource.MustParse(defaultStoreSize)
	if storage.Size != nil {
		size = *storage.Size
	}
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: storeVolume},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	if storage.ClassName != "" {
		claim.Spec.StorageClassName = &storage.ClassName
	}
	return claim
}
