package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

func TestAWishToDrainIsAnsweredAndForgottenWithIt(t *testing.T) {
	zn := &v1alpha1.ZoneNode{}
	zn.Spec.DrainReasons = []v1alpha1.DrainReason{v1alpha1.DrainUser}
	answerDrain(zn)
	c := meta.FindStatusCondition(zn.Status.Conditions, v1alpha1.ConditionDrained)
	if c == nil || c.Reason != v1alpha1.ReasonNotActedOn {
		t.Fatalf("condition %+v", c)
	}
	zn.Spec.DrainReasons = nil
	answerDrain(zn)
	if len(zn.Status.Conditions) != 0 {
		t.Errorf("the answer stays without the wish: %+v", zn.Status.Conditions)
	}
}
