//go:build !race

package controllers_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// 4096 regions on 64 nodes. The nodes run in this process, on the same machine as the API server. It is about time, so it runs
// without the race detector, and `make test` runs it with nothing else beside it.
func TestTheLargestWorldConvergesAndThenCostsNoWrite(t *testing.T) {
	b := newBenchAlone(t)
	began := time.Now()
	b.create(b.world(64, 64, 64))
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	b.awaitCondition(v1alpha1.ConditionAssignmentConverged, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	b.awaitCondition(v1alpha1.ConditionNodesUpToDate, metav1.ConditionTrue, v1alpha1.ReasonUpToDate)
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("it took %s", took)
	} else {
		t.Logf("it took %s", took)
	}
	b.settled()
	b.quiet(60 * time.Second)
}
