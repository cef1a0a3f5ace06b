package fence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

func TestDeadlineIsOnlyEverExtended(t *testing.T) {
	var d Deadline
	if !d.Passed(0) {
		t.Error("a process without a session may act")
	}
	d.extend(10)
	d.extend(7)
	if d.Passed(9) || !d.Passed(10) {
		t.Errorf("deadline %d, want 10", d.At())
	}
	d.revoke()
	d.extend(20)
	if !d.Passed(0) {
		t.Error("a late renewal extended a revoked deadline")
	}
	if f := FixedDeadline(5); f.Passed(4) || !f.Passed(5) {
		t.Error("a fixed deadline is not where it was put")
	}
}

func TestDeadlineIsReadWithoutAllocation(t *testing.T) {
	d, clock := FixedDeadline(time.Hour), BootClock{}
	if n := testing.AllocsPerRun(100, func() { d.Passed(clock.Boottime()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDeadlinePassed(b *testing.B) {
	d, clock := FixedDeadline(math.MaxInt64), BootClock{}
	for b.Loop() {
		d.Passed(clock.Boottime())
	}
}

func TestClassifySortsErrorsByWhatTheySayAboutTheWrite(t *testing.T) {
	for _, c := range []struct {
		err  error
		want outcome
	}{
		{nil, done},
		{conflictOn("x"), conflict},
		{fmt.Errorf("wrapped: %w", conflictOn("x")), conflict},
		{apierrors.NewUnauthorized("who"), refused},
		{apierrors.NewForbidden(leaseResource, "x", errors.New("no")), refused},
		{apierrors.NewNotFound(leaseResource, "x"), refused},
		{apierrors.NewTooManyRequestsError("busy"), refused},
		{apierrors.NewInternalError(errors.New("etcd")), unknown},
		{apierrors.NewTimeoutError("slow", 1), unknown},
		{apierrors.NewServiceUnavailable("down"), unknown},
		{context.DeadlineExceeded, unknown},
		{&url.Error{Op: "Put", Err: errors.New("connection reset")}, unknown},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

func TestRenewalAnswers(t *testing.T) {
	mine := held(sessionLease(1), "pod_1", 3)
	mine.UID, mine.ResourceVersion = "u", "7"
	newer := mine.DeepCopy()
	newer.ResourceVersion = "8"
	other := func(change func(*coordinationv1.Lease)) *coordinationv1.Lease {
		l := newer.DeepCopy()
		change(l)
		return l
	}
	for _, c := range []struct {
		name  string
		asked request
		got   *coordinationv1.Lease
		err   error
		want  verdict
		next  request
	}{
		{"an answered write renews", write, newer, nil, renewed, write},
		{"a conflict is read at once", write, nil, conflictOn("x"), again, read},
		{"the same incarnation is adopted, and written at once, but extends nothing", read, newer, nil, again, write},
		{"an empty holder is the operator's revocation", read, other(setHolder("")), nil, lost, write},
		{"another holder has taken over", read, other(setHolder("pod_2")), nil, lost, write},
		{"a later incarnation of the same pod has taken over", read, held(newer.DeepCopy(), "pod_1", 4), nil, lost, write},
		{"another object is another lease", read, other(func(l *coordinationv1.Lease) { l.UID = "v" }), nil, lost, write},
		{"a refused write is looked into", write, nil, apierrors.NewForbidden(leaseResource, "x", nil), later, read},
		{"a missing lease is looked into", write, nil, apierrors.NewNotFound(leaseResource, "x"), later, read},
		{"a refused read is followed by a write", read, nil, apierrors.NewUnauthorized("x"), later, write},
		{"a time-out is followed by the same write", write, nil, context.DeadlineExceeded, later, write},
		{"a server error says nothing", write, nil, apierrors.NewInternalError(errors.New("x")), later, write},
	} {
		r := renewal{tenure: tenure{uid: "u", holder: "pod_1", incarnation: 3}, lease: mine}
		got, reason := r.answered(c.asked, c.got, c.err)
		if got != c.want || r.next() != c.next {
			t.Errorf("%s: verdict %d, next %d, want %d, %d (%s)", c.name, got, r.next(), c.want, c.next, reason)
		}
		if (got != renewed) != (reason != "") {
			t.Errorf("%s: reason %q", c.name, reason)
		}
		if adopted := r.lease == newer; adopted != (got == renewed || got == again && c.asked == read) {
			t.Errorf("%s: adopted %v", c.name, adopted)
		}
	}
}

func TestAcquisitionTakesOnlyWhatIsFreeOrSilentForTheFullDuration(t *testing.T) {
	lease := func(holder, version string) *coordinationv1.Lease {
		l := held(sessionLease(1), holder, 3)
		l.UID, l.ResourceVersion = "u", version
		return l
	}
	long := lease("other", "1")
	seconds := int32(60)
	long.Spec.LeaseDurationSeconds = &seconds
	recreated := lease("other", "1")
	recreated.UID = "v"
	foreign := lease("", "1")
	foreign.Labels[v1alpha1.LabelWorld] = "another"
	canary := lease("", "1")
	canary.Labels[v1alpha1.LabelLease] = v1alpha1.LeaseKindCanary

	type seen struct {
		sent, answered int // seconds
		lease          *coordinationv1.Lease
	}
	const failed = -1
	for _, c := range []struct {
		name  string
		reads []seen
		want  bool
	}{
		{"free", []seen{{0, 1, lease("", "1")}}, true},
		{"own earlier container", []seen{{0, 1, lease("me", "1")}}, true},
		{"other holder, seen once", []seen{{100, 101, lease("other", "1")}}, false},
		{"unchanged for the duration", []seen{{0, 0, lease("other", "1")}, {5, 5, lease("other", "1")}, {10, 10, lease("other", "1")}, {15, 15, lease("other", "1")}}, true},
		{"unchanged just short of it", []seen{{0, 0, lease("other", "1")}, {5, 5, lease("other", "1")}, {10, 10, lease("other", "1")}, {14, 15, lease("other", "1")}}, false},
		{"counted from the answer of the first read", []seen{{0, 4, lease("other", "1")}, {9, 9, lease("other", "1")}, {15, 15, lease("other", "1")}}, false},
		{"renewed in between", []seen{{0, 0, lease("other", "1")}, {5, 5, lease("other", "2")}, {10, 10, lease("other", "2")}, {15, 15, lease("other", "2")}}, false},
		{"re-created in between", []seen{{0, 0, lease("other", "1")}, {5, 5, recreated}, {10, 10, recreated}, {15, 15, recreated}}, false},
		{"a gap without reads", []seen{{0, 0, lease("other", "1")}, {15, 15, lease("other", "1")}}, false},
		{"a failed read starts anew", []seen{{0, 0, lease("other", "1")}, {5, 5, lease("other", "1")}, {failed, 0, nil}, {10, 10, lease("other", "1")}, {15, 15, lease("other", "1")}}, false},
		{"the holder promised a longer duration", []seen{{0, 0, long}, {5, 5, long}, {10, 10, long}, {15, 15, long}}, false},
		{"of another World", []seen{{0, 0, foreign}}, false},
		{"not a session lease", []seen{{0, 0, canary}}, false},
		{"incarnations used up", []seen{{0, 0, held(lease("", "1"), "", math.MaxInt32)}}, false},
	} {
		a := acquisition{world: testWorld, holder: "me", duration: 15 * time.Second, gap: 6 * time.Second}
		var got step
		for _, r := range c.reads {
			if r.sent == failed {
				a.seen.forget()
				continue
			}
			got = a.decide(time.Duration(r.sent)*time.Second, time.Duration(r.answered)*time.Second, r.lease)
		}
		if got.take != c.want || got.reason == "" {
			t.Errorf("%s: take %v (%s), want %v", c.name, got.take, got.reason, c.want)
		}
	}
}

func TestDecideRegion(t *testing.T) {
	const me = "genesis-zone-1"
	for _, c := range []struct {
		name           string
		holder, target string
		epoch          int32
		want           action
	}{
		{"free and ordered for me", "", me, 4, take},
		{"free and ordered for another", "", "genesis-zone-2", 4, leave},
		{"free without an order", "", "", 4, leave},
		{"free, ordered for a node with my name as a prefix", "", me + "1", 4, leave},
		{"mine", me + "#5", me, 4, leave},
		{"mine, ordered away: a boundary move, not a take", me + "#5", "genesis-zone-2", 4, leave},
		{"my predecessor's", me + "#4", me, 4, inherit},
		{"my predecessor's, ordered away: still mine first", me + "#4", "genesis-zone-2", 4, inherit},
		{"my successor's", me + "#6", me, 4, leave},
		{"another's, ordered for me", "genesis-zone-2#1", me, 4, leave},
		{"a node's with my name as a prefix", me + "1#1", me, 4, leave},
		{"no session's", "somebody", me, 4, leave},
		{"epochs used up", "", me, math.MaxInt32, leave},
	} {
		got, reason := decideRegion(regionFacts{holder: c.holder, target: c.target, epoch: c.epoch}, me, 5)
		if got != c.want || reason == "" {
			t.Errorf("%s: %v (%s), want %v", c.name, got, reason, c.want)
		}
	}
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	if backoff(1) != firstBackoff || backoff(2) != 2*firstBackoff {
		t.Errorf("backoff starts with %s, %s", backoff(1), backoff(2))
	}
	for n := 1; n < 100; n++ {
		if d := backoff(n); d < firstBackoff || d > maxBackoff || n > 1 && d < backoff(n-1) {
			t.Errorf("backoff(%d) = %s", n, d)
		}
	}
}

func TestTokenMustNameThisPod(t *testing.T) {
	user := func(name, uid string) authenticationv1.UserInfo {
		u := authenticationv1.UserInfo{Username: "system:serviceaccount:ns:genesis-zone", Extra: map[string]authenticationv1.ExtraValue{}}
		if name != "" {
			u.Extra[extraPodName] = []string{name}
		}
		if uid != "" {
			u.Extra[extraPodUID] = []string{uid}
		}
		return u
	}
	if err := boundTo(user("pod", "1"), "pod", "1"); err != nil {
		t.Error(err)
	}
	for name, u := range map[string]authenticationv1.UserInfo{
		"no claims": {}, "no uid": user("pod", ""), "no name": user("", "1"), "another pod": user("other", "1"), "an earlier pod": user("pod", "0"),
	} {
		if err := boundTo(u, "pod", "1"); !errors.Is(err, ErrUnboundToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	good := testConfig(1, "uid", nil)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Config){
		"pod name":       func(c *Config) { c.PodName = "genesis-zone-2" },
		"pod uid":        func(c *Config) { c.PodUID = "" },
		"ordinal":        func(c *Config) { c.Ordinal, c.PodName = -1, "genesis-zone--1" },
		"renew period":   func(c *Config) { c.RenewPeriod = 6 * time.Second },
		"lease duration": func(c *Config) { c.LeaseDuration = 11 * time.Second },
		"whole seconds":  func(c *Config) { c.LeaseDuration = 15500 * time.Millisecond },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestBootClockRunsForward(t *testing.T) {
	a := BootClock{}.Boottime()
	if b := (BootClock{}).Boottime(); a <= 0 || b < a {
		t.Errorf("%s then %s", a, b)
	}
}

func TestAWriteNeedsAnObjectFromTheAPI(t *testing.T) {
	for _, lease := range []*coordinationv1.Lease{
		{}, func() *coordinationv1.Lease { l := sessionLease(1); l.UID = "u"; return l }(), func() *coordinationv1.Lease { l := sessionLease(1); l.ResourceVersion = "1"; return l }(),
	} {
		if _, err := update(t.Context(), nil, lease); err == nil {
			t.Error("written without uid and resourceVersion")
		}
	}
}
