package controllers

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const (
	// annotationTemplate, on the StatefulSet, is the fingerprint of the template that the operator rendered last. The live
	// template has the server's defaults in it, and maybe the mark of `kubectl rollout restart`, so it is not compared.
	annotationTemplate = "spatialcells.io/template"
	// annotationRestarted is that mark. It is kept.
	annotationRestarted = "kubectl.kubernetes.io/restartedAt"
)

// ensureStatefulSet makes the zone nodes, or changes what they are to be. Under OnDelete no pod restarts by itself.
func (r *WorldReconciler) ensureStatefulSet(ctx context.Context, s *scene) error {
	if s.holdNodes {
		return nil
	}
	template, err := s.zoneNodeTemplate()
	if err != nil {
		return err
	}
	want, err := untyped(s.zoneNodeStatefulSet(), r.Scheme())
	if err != nil {
		return err
	}
	have, err := r.find(ctx, s, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: want.GetName(), Namespace: want.GetNamespace()}})
	if err != nil {
		return err
	}
	if err := setTemplate(have, want, template); err != nil {
		return err
	}
	err = r.write(ctx, s, have, want)
	var refused *blocked
	if errors.As(err, &refused) {
		return &blocked{v1alpha1.ReasonInvalidTemplate, refused.message + ". Correct spec.nodes; the running pods stay as they are."}
	}
	return err
}

// zoneNodeStatefulSet is the StatefulSet without its template.
func (s *scene) zoneNodeStatefulSet() *appsv1.StatefulSet {
	name := v1alpha1.StatefulSetName(s.world.Name)
	return &appsv1.StatefulSet{ObjectMeta: s.meta(name), Spec: appsv1.StatefulSetSpec{
		Replicas:            new(s.podsWanted()),
		ServiceName:         v1alpha1.PeersServiceName(s.world.Name),
		Selector:            &metav1.LabelSelector{MatchLabels: selector(s.world.Name, componentZoneNode)},
		PodManagementPolicy: appsv1.ParallelPodManagement,
		UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
	}}
}

// setTemplate puts the rendered template into want, unless have was rendered from the same one.
func setTemplate(have, want *unstructured.Unstructured, template map[string]any) error {
	mark := fingerprint(template)
	if have != nil && have.GetAnnotations()[annotationTemplate] == mark {
		unstructured.RemoveNestedField(want.Object, "spec", "template")
		return nil
	}
	want.SetAnnotations(map[string]string{annotationTemplate: mark})
	if have != nil {
		if at, found, _ := unstructured.NestedString(have.Object, "spec", "template", "metadata", "annotations", annotationRestarted); found {
			template = runtime.DeepCopyJSON(template)
			if err := unstructured.SetNestedField(template, at, "metadata", "annotations", annotationRestarted); err != nil {
				return fmt.Errorf("keeping the restart mark: %w", err)
			}
		}
		unstructured.RemoveNestedField(have.Object, "spec", "template") // replaced whole: a removed field must go
	}
	if err := unstructured.SetNestedMap(want.Object, template, "spec", "template"); err != nil {
		return fmt.Errorf("setting the pod template: %w", err)
	}
	return nil
}

// podsWanted is the number of pods: what the spec asks for, but never fewer than the nodes that still hold regions, or to which
// regions are on their way: an order that was taken back in vain may have been carried out. Zero is a stop of the whole World, in which every node saves and releases.
func (s *scene) podsWanted() int32 {
	wanted := s.replicas()
	if wanted == 0 || s.statefulSet == nil {
		return wanted
	}
	for ordinal, regions := range s.heldRegions() {
		if regions > 0 && ordinal < replicasOf(s.statefulSet) {
			wanted = max(wanted, ordinal+1)
		}
	}
	for i := range s.regions {
		if s.onItsWay(i) && s.targetNode(s.regions[i]) < replicasOf(s.statefulSet) {
			wanted = max(wanted, s.targetNode(s.regions[i])+1)
		}
	}
	return wanted
}

func replicasOf(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}
