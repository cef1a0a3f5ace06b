package controllers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// blocked is an error that only an edit cures: trying again changes nothing.
type blocked struct{ reason, message string }

func (b *blocked) Error() string { return b.message }

func conflict(kind, name string) *blocked {
	return &blocked{v1alpha1.ReasonNameConflict, fmt.Sprintf(
		"%s %s exists and does not belong to this World. Delete or rename it, or give the World another name.", kind, name)}
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}

// refusal remembers what the API server said to an object, so that it is not asked again and again.
type refusal struct {
	fingerprint string
	until       time.Time
	cause       *blocked
}

func (r refusal) standing(now time.Time) bool { return r.cause != nil && now.Before(r.until) }

// refusalTrust is how long a refusal is remembered: it may have been for want of quota or permission.
const refusalTrust = 5 * time.Minute

// childKinds are the kinds a World is made of, besides Leases and Secrets.
func childKinds() []client.Object {
	return []client.Object{
		&appsv1.StatefulSet{}, &corev1.Service{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
		&policyv1.PodDisruptionBudget{}, &v1alpha1.ZoneNode{},
	}
}

// ensureChildren makes what a World is made of, in the order in which the parts need each other. Under a refused
// declaration everything stays as it is.
func (r *WorldReconciler) ensureChildren(ctx context.Context, s *scene) {
	if s.assignment.refusal != nil {
		return
	}
	for _, step := range []func(context.Context, *scene) error{
		r.ensureSecrets, r.ensureParts, r.ensureZoneNodes, r.ensureStore, r.ensureStatefulSet,
	} {
		err := step(ctx, s)
		var edit *blocked
		if errors.As(err, &edit) {
			s.block(edit)
			return
		}
		if err != nil {
			s.fail(err)
			return
		}
		if s.verdicts[v1alpha1.ConditionNodesUpToDate].reason != "" {
			return // a step that waits says for what
		}
	}
}

// block notes what only an edit cures.
func (s *scene) block(b *blocked) {
	s.verdicts[v1alpha1.ConditionNodesUpToDate] = verdict{false, b.reason, b.message}
	s.verdicts[v1alpha1.ConditionStalled] = verdict{true, b.reason, b.message}
}

func (s *scene) ownerReference() metav1.OwnerReference {
	return *metav1.NewControllerRef(s.world, v1alpha1.GroupVersion.WithKind("World"))
}

func (s *scene) labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelWorld: s.world.Name, labelName: "spatialcells", labelInstance: s.world.Name, labelManagedBy: "spatialcells-operator",
	}
}

func (s *scene) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.world.Namespace, Labels: s.labels()}
}

// ensureParts makes the identity, the Services and the disruption budget of the zone nodes.
func (r *WorldReconciler) ensureParts(ctx context.Context, s *scene) error {
	for _, part := range s.parts() {
		if err := r.ensure(ctx, s, part); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) parts() []client.Object {
	world := s.world.Name
	account := v1alpha1.ServiceAccountName(world)
	pods := selector(world, componentZoneNode)
	gateway := s.world.Spec.Gateway
	service := &corev1.Service{ObjectMeta: s.meta(v1alpha1.GatewayServiceName(world)), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceType(gateway.ServiceType), Selector: pods,
		Ports: []corev1.ServicePort{{Name: "gateway", Port: gateway.Port, TargetPort: intstr.FromInt32(portGateway), Protocol: corev1.ProtocolTCP}},
	}}
	service.Annotations = gateway.Annotations
	if service.Spec.Type != corev1.ServiceTypeClusterIP { // the gateway sees the players' addresses
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: s.meta(account)},
		&rbacv1.Role{ObjectMeta: s.meta(account), Rules: zoneNodeRules()},
		&rbacv1.RoleBinding{
			ObjectMeta: s.meta(account),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: s.world.Namespace}},
		},
		&corev1.Service{ObjectMeta: s.meta(v1alpha1.PeersServiceName(world)), Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: pods, // a draining node keeps its links
			Ports: []corev1.ServicePort{{Name: "link", Port: portLink, TargetPort: intstr.FromInt32(portLink), Protocol: corev1.ProtocolTCP}},
		}},
		service,
		&policyv1.PodDisruptionBudget{ObjectMeta: s.meta(v1alpha1.StatefulSetName(world)), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             new(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: pods},
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		}},
	}
}

// zoneNodeRules is all that a zone node may do. The admission policies narrow the writes on Leases to its own.
func zoneNodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch", "update"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"zonenodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"zonenodes/status"}, Verbs: []string{"update", "patch"}},
	}
}

// ensureZoneNodes makes the object of each zone node, and removes those of nodes that neither are nor should be.
func (r *WorldReconciler) ensureZoneNodes(ctx context.Context, s *scene) error {
	for ordinal := range s.replicas() {
		node := &v1alpha1.ZoneNode{ObjectMeta: s.meta(v1alpha1.NodeName(s.world.Name, int(ordinal)))}
		node.Labels[v1alpha1.LabelOrdinal] = strconv.Itoa(int(ordinal))
		node.Spec = v1alpha1.ZoneNodeSpec{WorldName: s.world.Name, Ordinal: ordinal}
		if err := r.ensure(ctx, s, node); err != nil {
			return err
		}
	}
	if s.replicas() == 0 {
		return nil
	}
	for ordinal, node := range s.zoneNodes {
		if ordinal >= s.replicas() && s.pods[ordinal] == nil && s.owns(node) {
			if err := client.IgnoreNotFound(r.Delete(ctx, node)); err != nil {
				return fmt.Errorf("deleting zone node %s: %w", node.Name, err)
			}
		}
	}
	return nil
}

// ensure makes a child, or sets what differs in it. An object of its name that belongs to somebody else is left alone.
func (r *WorldReconciler) ensure(ctx context.Context, s *scene, desired client.Object) error {
	want, err := untyped(desired, r.Scheme())
	if err != nil {
		return err
	}
	have, err := r.find(ctx, s, desired)
	if err != nil {
		return err
	}
	return r.write(ctx, s, have, want)
}

// find reads the child that exists under the name of another, nil if none does. Absence in the cache is checked at the API
// server: the object may be too young, or not carry our label.
func (r *WorldReconciler) find(ctx context.Context, s *scene, like client.Object) (*unstructured.Unstructured, error) {
	found, ok := like.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("reading %T: it is no object", like)
	}
	key := client.ObjectKeyFromObject(like)
	err := r.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, found)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %T %s: %w", like, key.Name, err)
	case !s.owns(found):
		gvk, _ := r.GroupVersionKindFor(found)
		return nil, conflict(gvk.Kind, key.Name)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", key.Name, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// write creates or updates, strictly: a field that the API server does not know is refused by name. What was refused is not
// sent again until it changes or some time has passed.
func (r *WorldReconciler) write(ctx context.Context, s *scene, have, want *unstructured.Unstructured) error {
	id := want.GetKind() + "/" + want.GetName()
	mark := fingerprint(want.Object)
	if known := s.memory.refused[id]; known.fingerprint == mark && known.standing(s.now) {
		return known.cause
	}
	err := r.send(ctx, s, have, want)
	if refused := asRefused(want.GetKind(), want.GetName(), err); refused != nil {
		s.memory.refused[id] = refusal{mark, s.now.Add(refusalTrust), refused}
		return refused
	}
	if err == nil {
		delete(s.memory.refused, id)
	}
	return err
}

func (r *WorldReconciler) send(ctx context.Context, s *scene, have, want *unstructured.Unstructured) error {
	strict := client.FieldValidation(metav1.FieldValidationStrict)
	if have == nil {
		want.SetOwnerReferences([]metav1.OwnerReference{s.ownerReference()})
		return wrap(r.Create(ctx, want, strict), "creating %s %s", want.GetKind(), want.GetName())
	}
	if covers(have.Object, want.Object) {
		return nil
	}
	have.SetGroupVersionKind(want.GroupVersionKind())
	overlay(have.Object, want.Object)
	return wrap(r.Update(ctx, have, strict), "updating %s %s", want.GetKind(), want.GetName())
}

// asRefused tells whether the API server understood the request and will not have it.
func asRefused(kind, name string, err error) *blocked {
	if err == nil || !(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)) {
		return nil
	}
	return &blocked{v1alpha1.ReasonRefused, fmt.Sprintf("the API server refuses %s %s: %s", kind, name, rootMessage(err))}
}

// rootMessage is what the API server said, without our own words around it.
func rootMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}
