package controllers_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

func TestARebalanceIsToldThatItIsNotActedOn(t *testing.T) {
	b := newBench(t)
	want := &v1alpha1.Rebalance{
		ObjectMeta: metav1.ObjectMeta{Name: "r1", Namespace: b.ns},
		Spec:       v1alpha1.RebalanceSpec{WorldName: "genesis", Mode: v1alpha1.RebalanceFull},
	}
	if err := b.client.Create(context.Background(), want); err != nil {
		t.Fatal(err)
	}
	b.await("the Rebalance is answered", func() (bool, string) {
		got := &v1alpha1.Rebalance{}
		if err := b.client.Get(context.Background(), b.key("r1"), got); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionProposalReady)
		told := c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonNotActedOn && strings.Contains(c.Message, "genesis")
		return told && got.Status.ObservedGeneration == got.Generation, "not told"
	})
}
