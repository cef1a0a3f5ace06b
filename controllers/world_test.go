package controllers_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

func (b *bench) exists(o client.Object, name string) {
	b.Helper()
	if err := b.client.Get(context.Background(), b.key(name), o); err != nil {
		b.Errorf("reading %T %s: %v", o, name, err)
	}
}

func (b *bench) statefulSet() *appsv1.StatefulSet {
	b.Helper()
	set := &appsv1.StatefulSet{}
	b.exists(set, "genesis-zone")
	return set
}

func TestAWorldBecomesReadyAndThenCostsNoWrite(t *testing.T) {
	b := newBench(t)
	world := b.apply(b.world(4, 4, 2))
	for name, o := range map[string]client.Object{
		"genesis-seed": &corev1.Secret{}, "genesis-token-keys": &corev1.Secret{}, "genesis-peers": &corev1.Service{},
		"genesis-gateway": &corev1.Service{}, "genesis-store": &corev1.Service{}, "genesis-canary": &coordinationv1.Lease{},
		"genesis-zone-0": &v1alpha1.ZoneNode{}, "genesis-zone-1": &v1alpha1.ZoneNode{},
	} {
		b.exists(o, name)
	}
	for _, o := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &policyv1.PodDisruptionBudget{}} {
		b.exists(o, "genesis-zone")
	}
	counts := map[string]int{}
	for _, lease := range b.regions() {
		counts[*lease.Spec.HolderIdentity]++
	}
	if want := map[string]int{"genesis-zone-0#1": 8, "genesis-zone-1#1": 8}; !maps.Equal(counts, want) {
		t.Errorf("regions by holder: %v, want %v", counts, want)
	}
	if world.Status.Image != "zone-node:test" || world.Status.Regions.Summary != "16/16" || world.Status.HighestEpoch < 1000 {
		t.Errorf("status: image %q, regions %q, highestEpoch %d", world.Status.Image, world.Status.Regions.Summary, world.Status.HighestEpoch)
	}
	b.awaitCondition(v1alpha1.ConditionFenceGuarded, metav1.ConditionTrue, v1alpha1.ReasonProven)
	b.awaitCondition(v1alpha1.ConditionNodesUpToDate, metav1.ConditionTrue, v1alpha1.ReasonUpToDate)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	b.awaitCondition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonConverged)
	b.awaitEvents("SeedMade", "DevelopmentTokens", "NodeStarted", "WorldReady", "FenceProven")
	b.settled()
	b.quiet(60 * time.Second)
}

func (b *bench) awaitEvents(reasons ...string) {
	b.Helper()
	b.await("events "+strings.Join(reasons, ", "), func() (bool, string) {
		list := &eventsv1.EventList{}
		if err := b.client.List(context.Background(), list, client.InNamespace(b.ns)); err != nil {
			return false, err.Error()
		}
		var seen []string
		for _, e := range list.Items {
			seen = append(seen, e.Reason)
		}
		for _, reason := range reasons {
			if !slices.Contains(seen, reason) {
				return false, strings.Join(seen, " ")
			}
		}
		return true, ""
	})
}

// 0.4 s on an idle machine of two cores; the bound leaves room for one that compiles beside.
func TestTwoHundredFiftySixRegionsAreMadeAtOnce(t *testing.T) {
	b := newBench(t)
	b.create(b.world(16, 16, 4))
	var first, last time.Time
	b.await("256 region leases", func() (bool, string) {
		regions := b.regions()
		if len(regions) == 256 {
			for _, lease := range regions {
				at := lease.CreationTimestamp.Time
				if first.IsZero() || at.Before(first) {
					first = at
				}
				if at.After(last) {
					last = at
				}
			}
		}
		return len(regions) == 256, ""
	})
	if took := last.Sub(first); took > 6*time.Second {
		t.Errorf("creating 256 leases took %s", took)
	}
	for _, lease := range b.regions() {
		if lease.Annotations[v1alpha1.AnnotationTarget] == "" {
			t.Errorf("%s was made without an order", lease.Name)
		}
	}
}

func TestARefusedDeclarationLeavesTheRunningWorldAlone(t *testing.T) {
	b := newBench(t)
	b.apply(b.world(4, 4, 2))
	b.settled()
	before := b.statefulSet().ResourceVersion
	orders := b.orders()
	b.edit(func(w *v1alpha1.World) {
		w.Spec.Assignment = v1alpha1.AssignmentSpec{Policy: v1alpha1.AssignmentManual, Areas: []v1alpha1.Area{{Width: 4, Height: 3}, {Ordinal: 1, Column: 1}}}
	})
	b.awaitCondition(v1alpha1.ConditionAssignmentAccepted, metav1.ConditionFalse, v1alpha1.ReasonAreasLeaveHoles)
	b.awaitCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonAreasLeaveHoles)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	if m := b.message(v1alpha1.ConditionAssignmentAccepted); !strings.Contains(m, "0,3 1,3 2,3 3,3") || !strings.Contains(m, "stays in force") {
		t.Errorf("message %q names neither the holes nor what holds", m)
	}
	b.awaitEvents("AssignmentRefused")
	b.edit(func(w *v1alpha1.World) {
		w.Spec.Assignment = v1alpha1.AssignmentSpec{Policy: v1alpha1.AssignmentBalanced}
		w.Spec.Nodes.Replicas = new(int32(17))
	})
	b.awaitCondition(v1alpha1.ConditionAssignmentAccepted, metav1.ConditionFalse, v1alpha1.ReasonMoreNodesThanRegions)
	b.settled()
	b.quiet(3 * time.Second)
	if after := b.statefulSet().ResourceVersion; after != before {
		t.Errorf("the StatefulSet was written")
	}
	if now := b.orders(); !maps.Equal(orders, now) {
		t.Errorf("orders changed from %v to %v", orders, now)
	}
	b.edit(func(w *v1alpha1.World) { w.Spec.Nodes.Replicas = new(int32(2)) })
	b.awaitCondition(v1alpha1.ConditionAssignmentAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
	b.awaitEvents("AssignmentAccepted")
}

func (b *bench) orders() map[string]string {
	b.Helper()
	orders := map[string]string{}
	for _, lease := range b.regions() {
		orders[lease.Name] = lease.Annotations[v1alpha1.AnnotationTarget]
	}
	return orders
}

func TestAWorldThatWasNeverAcceptedStartsNothing(t *testing.T) {
	b := newBench(t)
	b.create(b.world(1, 1, 2))
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMoreNodesThanRegions)
	if n := len(b.regions()); n != 0 {
		t.Errorf("%d region leases were made", n)
	}
	b.settled()
	b.quiet(3 * time.Second)
}

func TestAMisspeltTemplateFieldIsReportedByName(t *testing.T) {
	b := newBench(t)
	b.apply(b.world(2, 2, 2))
	b.settled()
	before := b.statefulSet().Generation
	b.edit(func(w *v1alpha1.World) {
		w.Spec.Nodes.Template = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"zone-node","imagee":"x"}]}}`)}
	})
	b.awaitCondition(v1alpha1.ConditionNodesUpToDate, metav1.ConditionFalse, v1alpha1.ReasonInvalidTemplate)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	if m := b.message(v1alpha1.ConditionNodesUpToDate); !strings.Contains(m, "imagee") {
		t.Errorf("message %q does not name the field", m)
	}
	b.settled()
	b.quiet(3 * time.Second)
	if after := b.statefulSet().Generation; after != before {
		t.Error("the StatefulSet was changed")
	}
	b.edit(func(w *v1alpha1.World) {
		w.Spec.Nodes.Template = &runtime.RawExtension{Raw: []byte(`{"spec":{"priorityClassName":"","nodeSelector":{"game":"yes"}}}`)}
	})
	b.awaitCondition(v1alpha1.ConditionNodesUpToDate, metav1.ConditionFalse, v1alpha1.ReasonRolloutNotActedOn)
	if got := b.statefulSet().Spec.Template.Spec.NodeSelector["game"]; got != "yes" {
		t.Errorf("the corrected template did not arrive")
	}
}

func TestSomebodyElsesObjectIsLeftAlone(t *testing.T) {
	b := newBench(t)
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "genesis-gateway", Namespace: b.ns},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
	}
	b.create(foreign)
	b.create(b.world(2, 2, 1))
	b.awaitCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonNameConflict)
	if m := b.message(v1alpha1.ConditionReady); !strings.Contains(m, "Service genesis-gateway") {
		t.Errorf("message %q does not name the object", m)
	}
	b.settled()
	b.quiet(3 * time.Second)
	b.remove(foreign)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}

func (b *bench) remove(o client.Object) {
	b.Helper()
	if err := b.client.Delete(context.Background(), o); err != nil {
		b.Fatalf("deleting %s: %v", o.GetName(), err)
	}
}

func TestAnOperatorUpgradeRestartsNoNode(t *testing.T) {
	b := newBench(t)
	b.apply(b.world(2, 2, 2))
	b.settled()
	before := b.statefulSet().Generation
	b.stop()
	b.image = "zone-node:next"
	b.startOperator()
	b.edit(func(w *v1alpha1.World) { w.Spec.Failover.RedistributionDelaySeconds = new(int32(7)) })
	b.await("the new operator", func() (bool, string) {
		w := b.get()
		return w.Status.ObservedGeneration == w.Generation, describe(w)
	})
	b.settled()
	if after := b.statefulSet(); after.Generation != before {
		t.Errorf("the StatefulSet changed: image %s", after.Spec.Template.Spec.Containers[0].Image)
	}
}

func TestHibernatingAndWakingMovesNothing(t *testing.T) {
	b := newBench(t)
	b.apply(b.world(4, 4, 4))
	orders := b.orders()
	b.edit(func(w *v1alpha1.World) { w.Spec.Nodes.Replicas = new(int32(0)) })
	world := b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated)
	b.await("the finalizer to be off", func() (bool, string) {
		world = b.get()
		return len(world.Finalizers) == 0, strings.Join(world.Finalizers, ",")
	})
	b.edit(func(w *v1alpha1.World) { w.Spec.Nodes.Replicas = new(int32(4)) })
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	if now := b.orders(); !maps.Equal(orders, now) {
		t.Errorf("orders changed from %v to %v", orders, now)
	}
}

func TestScalingMovesRegionsFirstAndThenStopsTheirNodes(t *testing.T) {
	b := newBench(t)
	b.apply(b.world(4, 4, 2))
	b.edit(func(w *v1alpha1.World) { w.Spec.Nodes.Replicas = new(int32(3)) })
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	b.awaitCondition(v1alpha1.ConditionNodesUpToDate, metav1.ConditionTrue, v1alpha1.ReasonUpToDate)
	b.edit(func(w *v1alpha1.World) { w.Spec.Nodes.Replicas = new(int32(1)) })
	b.await("the second and the third node to go", func() (bool, string) {
		return *b.statefulSet().Spec.Replicas == 1, describe(b.get())
	})
	b.awaitCondition(v1alpha1.ConditionNodesUpToDate, metav1.ConditionTrue, v1alpha1.ReasonUpToDate)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	if got := b.nodes.leases.holders(); got["genesis-zone-0"] != 16 {
		t.Errorf("regions by holder: %v", got)
	}
}

func TestScalingDownOutsideAWindowSaysWhatItWaitsFor(t *testing.T) {
	b := newBench(t)
	world := b.world(4, 4, 2)
	world.Spec.Maintenance = closedFor(time.Hour)
	b.apply(world)
	b.edit(func(w *v1alpha1.World) { w.Spec.Nodes.Replicas = new(int32(1)) })
	b.awaitCondition(v1alpha1.ConditionNodesUpToDate, metav1.ConditionFalse, v1alpha1.ReasonScaling)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionFalse, v1alpha1.ReasonWaitingForWindow)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	if n := *b.statefulSet().Spec.Replicas; n != 2 {
		t.Errorf("%d pods are wanted while two nodes hold regions", n)
	}
	b.edit(func(w *v1alpha1.World) { w.Spec.Nodes.Replicas = new(int32(2)) })
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
}

func TestDeletionLeavesNothingButTheSeed(t *testing.T) {
	b := newBench(t)
	world := b.apply(b.world(4, 4, 2))
	b.remove(world)
	b.await("the World to be gone", func() (bool, string) {
		err := b.client.Get(context.Background(), b.key("genesis"), &v1alpha1.World{})
		return apierrors.IsNotFound(err), ""
	})
	for _, list := range []client.ObjectList{
		&coordinationv1.LeaseList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{},
		&rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{}, &appsv1.StatefulSetList{}, &v1alpha1.ZoneNodeList{}, &corev1.ConfigMapList{},
	} {
		b.checkOrphans(list, world)
	}
	if n := len(b.regions()); n != 0 {
		t.Errorf("%d region leases are left", n)
	}
	pods := &corev1.PodList{}
	if err := b.client.List(context.Background(), pods, client.InNamespace(b.ns), client.MatchingLabels{"app.kubernetes.io/component": "zone-node"}); err != nil || len(pods.Items) != 0 {
		t.Errorf("%d zone node pods are left (%v)", len(pods.Items), err)
	}
}

// checkOrphans fails for objects that the garbage collector, which does not run here, would leave behind.
func (b *bench) checkOrphans(list client.ObjectList, world *v1alpha1.World) {
	b.Helper()
	if err := b.client.List(context.Background(), list, client.InNamespace(b.ns)); err != nil {
		b.Fatalf("listing %T: %v", list, err)
	}
	items, err := extract(list)
	if err != nil {
		b.Fatal(err)
	}
	for _, o := range items {
		owned := slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == world.UID })
		system := o.GetName() == "default" || o.GetName() == "kube-root-ca.crt"
		if !owned && !system && o.GetName() != "genesis-seed" {
			b.Errorf("%T %s would be left behind", o, o.GetName())
		}
	}
}
