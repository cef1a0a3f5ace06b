package controllers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// overQuota lets the API server refuse to make any Lease.
func overQuota(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
	if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/leases") {
		return send()
	}
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"leases is forbidden: exceeded quota: few"}`
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}, nil
}

func TestANodeIsFailedOverWhileALeaseIsRefused(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(2, 2, 2))
	b.settled()
	highest := b.get().Status.HighestEpoch
	b.wire.set(overQuota)
	lost := b.region("genesis-r-0-0")
	b.remove(lost)
	b.awaitCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRefused)
	if m := b.message(v1alpha1.ConditionStalled); !strings.Contains(m, "Lease genesis-r-0-0: leases is forbidden: exceeded quota") {
		t.Errorf("Stalled says %q", m)
	}
	dead := "genesis-zone-1"
	b.nodes.freeze(dead)
	b.await("the regions with their heir", func() (bool, string) {
		var holders []string
		for _, lease := range b.regions() {
			holders = append(holders, *lease.Spec.HolderIdentity)
		}
		seen := strings.Join(holders, " ")
		return len(holders) == 3 && !strings.Contains(seen, dead) && !strings.HasPrefix(seen, " "), seen
	})
	if world := b.get(); world.Status.HighestEpoch > highest+2*1001 {
		t.Errorf("highestEpoch went from %d to %d for one Lease that is not there", highest, world.Status.HighestEpoch)
	}
	b.wire.set(nil)
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}
