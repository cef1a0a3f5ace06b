package controllers

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/placement"
)

var now = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// row builds a scene of a World of one row, one region per name; "" is a free region, "-" a missing Lease.
func row(replicas int32, holders ...string) *scene {
	world := &v1alpha1.World{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
	world.Spec.Grid = v1alpha1.GridSpec{Columns: int32(len(holders)), Rows: 1}
	world.Spec.Nodes.Replicas = &replicas
	world.Spec.Fencing = v1alpha1.FencingSpec{LeaseDurationSeconds: 15, RenewDeadlineSeconds: 10, RenewPeriodSeconds: 2}
	world.Spec.Failover.RedistributionDelaySeconds = new(int32(30))
	s := &scene{
		world: world, memory: &memory{}, now: now, grid: placement.Grid{Columns: int32(len(holders)), Rows: 1},
		sessions: map[int32]*coordinationv1.Lease{}, pods: map[int32]*corev1.Pod{}, zoneNodes: map[int32]*v1alpha1.ZoneNode{},
		verdicts: map[string]verdict{}, reported: &v1alpha1.WorldStatus{},
	}
	for i, holder := range holders {
		if holder == "-" {
			s.regions = append(s.regions, nil)
			continue
		}
		lease := s.lease(v1alpha1.RegionLeaseName("w", i, 0), v1alpha1.LeaseKindRegion, 5)
		lease.Spec.HolderIdentity = &holder
		s.regions = append(s.regions, lease)
	}
	return s
}

// session gives a node a session Lease: its incarnation, and whether it is held.
func (s *scene) session(ordinal, incarnation int32, held bool) *scene {
	lease := s.lease(v1alpha1.NodeName("w", int(ordinal)), v1alpha1.LeaseKindSession, incarnation)
	if held {
		lease.Spec.HolderIdentity = new(v1alpha1.HolderIdentity(lease.Name, "uid"))
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	s.sessions[ordinal] = lease
	return s
}

func (s *scene) ordered(table ...int32) *scene {
	for i, ordinal := range table {
		metav1.SetMetaDataAnnotation(&s.regions[i].ObjectMeta, v1alpha1.AnnotationTarget, v1alpha1.NodeName("w", int(ordinal)))
	}
	return s
}

func (s *scene) declared(table ...int32) *scene {
	s.assignment = assignment{table: table, declared: table}
	return s
}

func TestASessionIsOverOnlyIfALaterLifeOrAnEmptyLeaseProvesIt(t *testing.T) {
	for holder, want := range map[string]tenure{
		"":               free,
		"w-zone-0#3":     held,     // the live session
		"w-zone-0#2":     orphaned, // an earlier life
		"w-zone-0#4":     held,     // a life that began after the sessions were read
		"w-zone-1#7":     orphaned, // released or revoked
		"w-zone-1#8":     held,     // taken after the sessions were read
		"w-zone-2#1":     held,     // the Lease is lost, and the node may not know
		"other-zone-0#3": orphaned,
		"nonsense":       orphaned,
	} {
		s := row(3, holder).session(0, 3, true).session(1, 7, false)
		if got, _ := s.tenureOf(0); got != want {
			t.Errorf("holder %q: tenure %d, want %d", holder, got, want)
		}
	}
}

func TestALostSessionLeaseProvesNothing(t *testing.T) {
	for holder, want := range map[string]tenure{
		"w-zone-0#3":    held, // it may act on behind the one that was lost
		"w-zone-0#1002": held,
	} {
		s := row(2, holder).session(1, 1, true).ran()
		s.sessions[0] = s.sessionLease(0, 1002)
		if !standsIn(s.sessions[0]) || s.sessionHeld(0) || len(s.heirs()) != 1 || len(s.heldRegions()) != 0 {
			t.Errorf("holder %q: a Lease that stands in for a lost one counts as a session", holder)
		}
		if got, _ := s.tenureOf(0); got != want {
			t.Errorf("holder %q: tenure %d, want %d", holder, got, want)
		}
		s.session(0, 1003, true)
		if got, _ := s.tenureOf(0); got != orphaned {
			t.Errorf("holder %q: tenure %d after the next life took the Lease, want it orphaned", holder, got)
		}
		s.session(0, 1002, false)
		if got, _ := s.tenureOf(0); got != orphaned {
			t.Errorf("holder %q: tenure %d after it was revoked, want it orphaned", holder, got)
		}
	}
}

func TestASessionLeaseIsMadeFreeOnlyWhereNobodyCanLive(t *testing.T) {
	pod := func(s *scene, ordinal int32) *scene {
		s.pods[ordinal] = &corev1.Pod{}
		return s
	}
	for name, tc := range map[string]struct {
		scene  *scene
		makes  []int32
		holder string
	}{
		"a new World":               {row(1, "").fresh(0), []int32{0}, ""},
		"one that was interrupted":  {row(1, "").fresh(1001), []int32{0}, ""},
		"a node that joins":         {row(2, "w-zone-0#1").ran().session(0, 1, true), []int32{1}, ""},
		"a region names a life":     {row(1, "w-zone-0#1").ran(), []int32{0}, v1alpha1.LostHolder},
		"the status names a life":   {row(1, "").ran().told("w-zone-0#1"), []int32{0}, v1alpha1.LostHolder},
		"it has a pod":              {pod(row(1, "").ran(), 0), []int32{0}, v1alpha1.LostHolder},
		"a pod that is not wanted":  {pod(row(0, "").ran(), 0), []int32{0}, v1alpha1.LostHolder},
		"every Lease is there":      {row(1, "").ran().session(0, 1, true), nil, v1alpha1.LostHolder},
		"a Lease that is not lost":  {row(1, "").ran().session(0, 1, false), nil, v1alpha1.LostHolder},
		"nobody wanted, and no pod": {row(0, "").ran(), nil, ""},
	} {
		if got := tc.scene.sessionsToMake(); !slices.Equal(got, tc.makes) {
			t.Errorf("%s: makes %v, want %v", name, got, tc.makes)
			continue
		}
		for _, ordinal := range tc.makes {
			if got := holderOf(tc.scene.sessionLease(ordinal, 1002)); got != tc.holder {
				t.Errorf("%s: held by %q, want %q", name, got, tc.holder)
			}
		}
	}
}

func TestALostSessionIsWaitedForAsLongAsAnyNodeGoesBy(t *testing.T) {
	s := row(2, "w-zone-0#1").session(1, 1, true).ran()
	s.sessions[0] = s.sessionLease(0, 1002)
	if got := s.patience(s.sessions[0]); got != 15*time.Second {
		t.Errorf("patience %v, want 15 s", got)
	}
	s.sessions[1].Spec.LeaseDurationSeconds = new(int32(40))
	if got := s.patience(s.sessions[0]); got != 40*time.Second {
		t.Errorf("patience %v though a node goes by 40 s", got)
	}
}

func TestTargets(t *testing.T) {
	revoked := func(s *scene, ordinal int32, ago time.Duration) *scene {
		s.session(ordinal, 1, false)
		metav1.SetMetaDataAnnotation(&s.sessions[ordinal].ObjectMeta, annotationRevoked, "1 "+now.Add(-ago).Format(time.RFC3339))
		return s
	}
	for name, tc := range map[string]struct {
		scene *scene
		want  placement.Table
	}{
		"a held region stays with its holder": {
			row(2, "w-zone-0#1", "w-zone-0#1").session(0, 1, true).session(1, 1, true).ordered(0, 0).declared(0, 1), placement.Table{0, 0},
		},
		"a free region follows the declaration": {
			row(2, "w-zone-0#1", "").session(0, 1, true).session(1, 1, true).ordered(0, 0).declared(0, 1), placement.Table{0, 1},
		},
		"freed regions wait for a lost node": {
			revoked(row(2, "w-zone-0#1", "w-zone-1#1").session(0, 1, true), 1, 20*time.Second).ordered(0, 1).declared(0, 1), placement.Table{0, 1},
		},
		"after the delay a live node gets them": {
			revoked(row(2, "w-zone-0#1", "w-zone-1#1").session(0, 1, true), 1, 31*time.Second).ordered(0, 1).declared(0, 1), placement.Table{0, 0},
		},
		"with nobody alive they keep waiting": {
			revoked(revoked(row(2, "", ""), 0, time.Hour), 1, time.Hour).ordered(0, 1).declared(0, 1), placement.Table{0, 1},
		},
		"an heir is kept": {
			revoked(row(3, "w-zone-0#1", "", "w-zone-2#1").session(0, 1, true).session(2, 1, true), 1, time.Hour).ordered(0, 2, 2).declared(0, 1, 2),
			placement.Table{0, 2, 2},
		},
		"a node that came back gets what is still free": {
			row(3, "w-zone-0#1", "", "w-zone-2#1").session(0, 1, true).session(1, 2, true).session(2, 1, true).ordered(0, 2, 2).declared(0, 1, 2),
			placement.Table{0, 1, 2},
		},
		"a node that has not started yet is waited for": {
			row(2, "w-zone-0#1", "").session(0, 1, true).session(1, 0, false).ordered(0, 1).declared(0, 1), placement.Table{0, 1},
		},
		"a node that drains gets no free region": {
			row(2, "w-zone-0#1", "").session(0, 1, true).session(1, 1, true).draining1().ordered(0, 1).declared(0, 1), placement.Table{0, 0},
		},
		"nor does an heir that drains": {
			revoked(row(3, "w-zone-0#1", "w-zone-1#1", "").session(0, 1, true).session(1, 1, true).draining1(), 2, time.Hour).ordered(0, 1, 1).declared(0, 1, 2),
			placement.Table{0, 1, 0},
		},
		"nor one that is waited for": {
			revoked(row(2, "w-zone-0#1", "w-zone-1#1").session(0, 1, true), 1, 20*time.Second).draining1().ordered(0, 1).declared(0, 1), placement.Table{0, 0},
		},
		"unless nobody else lives": {
			revoked(row(2, "", "").session(1, 1, true).draining1(), 0, time.Hour).ordered(0, 1).declared(0, 1), placement.Table{0, 1},
		},
		"hibernation changes no order": {
			row(0, "", "").session(0, 1, false).session(1, 1, false).ordered(1, 0).declared(0, 1), placement.Table{1, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.scene.targets(); !slices.Equal(got, tc.want) {
				t.Errorf("targets %v, want %v", got, tc.want)
			}
		})
	}
}

// Whatever the state, carrying out the targets once leaves nothing to do: the next look orders the same.
func TestTargetsAreStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 4).Draw(t, "nodes")
		size := rapid.IntRange(int(n), 12).Draw(t, "regions")
		holders := make([]string, size)
		for i := range holders {
			holders[i] = rapid.SampledFrom([]string{"", "w-zone-0#1", "w-zone-1#1", "w-zone-1#2", "w-zone-3#9"}).Draw(t, "holder")
		}
		s := row(n, holders...)
		for ordinal := range n {
			s.session(ordinal, rapid.Int32Range(0, 2).Draw(t, "incarnation"), rapid.Bool().Draw(t, "held"))
			s.sessions[ordinal].Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-time.Duration(rapid.IntRange(0, 200).Draw(t, "age")) * time.Second)}
		}
		table := make(placement.Table, size)
		for i := range table {
			table[i] = rapid.Int32Range(0, n-1).Draw(t, "declared")
		}
		s.declared(table...)
		s.ordered(table...)
		first := s.targets()
		for i := range s.regions {
			tenure, holder := s.tenureOf(i)
			if tenure == held && first[i] != holder {
				t.Fatalf("region %d is held by node %d and ordered to %d", i, holder, first[i])
			}
			if update := s.settle(s.regions[i], tenure, first[i]); update != nil {
				s.regions[i] = update
			}
		}
		if again := s.targets(); !slices.Equal(first, again) {
			t.Fatalf("targets %v, then %v", first, again)
		}
		for i := range s.regions {
			if tenure, _ := s.tenureOf(i); s.settle(s.regions[i], tenure, first[i]) != nil {
				t.Fatalf("region %d would be written again", i)
			}
		}
	})
}

func TestOnlyAPodThatIsOverForCertainProvesADeath(t *testing.T) {
	began := metav1.NewMicroTime(now)
	session := row(1, "").session(0, 1, true).sessions[0]
	session.Spec.AcquireTime = &began
	ended := func(at time.Time, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at), Reason: reason}}}
	}
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "w-zone-0", UID: "uid"}}
		p.Spec.Containers = []corev1.Container{{Name: "zone-node"}}
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{ended(now.Add(time.Minute), "Error")}
		change(p)
		return p
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		dead bool
	}{
		"failed":                       {pod(func(*corev1.Pod) {}), true},
		"no pod":                       {nil, false},
		"a successor of the same name": {pod(func(p *corev1.Pod) { p.UID = "another" }), false},
		"a container ended in a living pod": {pod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
		}), false},
		"deleted, and ended": {pod(func(p *corev1.Pod) {
			p.Status.Phase, p.DeletionTimestamp = corev1.PodRunning, &metav1.Time{Time: now}
		}), true},
		"deleted, and still running": {pod(func(p *corev1.Pod) {
			p.Status.Phase, p.DeletionTimestamp = corev1.PodRunning, &metav1.Time{Time: now}
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}), false},
		"ended before the session began": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = ended(now.Add(-time.Second), "Error")
		}), false},
		"an exit that nobody saw": {pod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = ended(now.Add(time.Minute), "ContainerStatusUnknown")
		}), false},
		"one of two containers ended": {pod(func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
		}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := provenDead(tc.pod, session); got != tc.dead {
				t.Errorf("proven dead: %t, want %t", got, tc.dead)
			}
		})
	}
}

func TestTheTemplateIsRestrictedAndTakesAnOverlay(t *testing.T) {
	s := row(1, "")
	s.image, s.storeID = "zone-node:1", "default/genesis/a1b2/x"
	s.store = storeView{
		question: question{url: "rediss://10.0.0.1:6379", credentials: "keys", ca: "authority"},
		finding:  &storeFinding{keys: []string{"username", "password"}},
	}
	s.world.Spec.Nodes.Template = &runtime.RawExtension{Raw: []byte(`{"metadata":{"annotations":{"a":"b"}},"spec":{"containers":[{"name":"zone-node","env":[{"name":"X","value":"y"}]}]}}`)}
	s.world.Spec.Gateway.AllowedOrigins = []string{"https://a.example", "https://b.example"}
	template, err := s.zoneNodeTemplate()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{
		`"runAsNonRoot":true`, `"drop":["ALL"]`, `"type":"RuntimeDefault"`, `"readOnlyRootFilesystem":true`, `"name":"X"`, `"a":"b"`,
		`"--store=rediss://10.0.0.1:6379"`, `"--store-id=default/genesis/a1b2/x"`,
		`"--store-password-file=/etc/spatialcells/store-credentials/password"`, `"--store-username-file=/etc/spatialcells/store-credentials/username"`,
		`"--store-ca-file=/etc/spatialcells/store-ca/ca.crt"`, `"secretName":"keys"`, `"secretName":"authority"`, `"--pod-uid=$(POD_UID)"`, `"image":"zone-node:1"`, `"terminationGracePeriodSeconds":30`,
		`"--allowed-origins=https://a.example,https://b.example"`, `"path":"/readyz"`, `"path":"/healthz"`,
	} {
		if !strings.Contains(string(raw), words) {
			t.Errorf("the template lacks %s:\n%s", words, raw)
		}
	}
	again, err := s.zoneNodeTemplate()
	if err != nil || fingerprint(again) != fingerprint(template) {
		t.Errorf("two renderings differ (%v)", err)
	}
}

func TestATemplateMayNotChangeWhatMakesAZoneNode(t *testing.T) {
	for overlay, names := range map[string]string{
		`{"metadata":{"labels":{"spatialcells.io/world":"other"}}}`:                         "spatialcells.io/world",
		`{"spec":{"serviceAccountName":"default"}}`:                                         "serviceAccountName",
		`{"spec":{"containers":[{"name":"zone-node","command":["sh"]}]}}`:                   "command",
		`{"spec":{"containers":[{"name":"zone-node","args":["--world=other"]}]}}`:           "args",
		`{"spec":{"containers":[{"name":"zone-node","$patch":"delete"}]}}`:                  "container zone-node",
		`{"spec":{"containers":[{"name":"sidecar","image":"x"}],"nodeSelector":{"a":"b"}}}`: "",
	} {
		s := row(1, "")
		s.image = "zone-node:1"
		s.world.Spec.Nodes.Template = &runtime.RawExtension{Raw: []byte(overlay)}
		_, err := s.zoneNodeTemplate()
		switch {
		case names == "" && err != nil:
			t.Errorf("%s is refused: %v", overlay, err)
		case names != "" && (err == nil || !strings.Contains(err.Error(), names)):
			t.Errorf("%s: %v, want a refusal that names %s", overlay, err, names)
		}
	}
}

func TestCoversIgnoresWhatIsNotAsked(t *testing.T) {
	have := map[string]any{"a": int64(1), "list": []any{map[string]any{"x": "y", "default": true}}, "more": "z"}
	if !covers(have, map[string]any{"a": float64(1), "list": []any{map[string]any{"x": "y"}}}) {
		t.Error("a subset is not covered")
	}
	for _, want := range []map[string]any{{"a": int64(2)}, {"b": int64(1)}, {"list": []any{}}, {"list": []any{map[string]any{"x": "n"}}}} {
		if covers(have, want) {
			t.Errorf("%v is covered", want)
		}
	}
}

func TestHighestEpochStaysAhead(t *testing.T) {
	s := row(1, "", "")
	s.highestEpoch = 1001
	if got := s.leadHighestEpoch(); got != 1001 {
		t.Errorf("raised to %d without need", got)
	}
	s.regions[1].Spec.LeaseTransitions = new(int32(700))
	if got := s.leadHighestEpoch(); got != 1700 {
		t.Errorf("raised to %d, want 1700", got)
	}
}

func TestANodeThatWasScaledAwayIsNotBlamed(t *testing.T) {
	// Node 2 was revoked long ago; its session Lease stays. Node 1 starts.
	gone := func(s *scene) *scene {
		s.world.Status.HighestEpoch = 1001
		s.session(0, 1, true).session(1, 0, false).session(2, 4, false)
		metav1.SetMetaDataAnnotation(&s.sessions[2].ObjectMeta, annotationRevoked, "4 "+now.Add(-100*time.Hour).Format(time.RFC3339))
		return s
	}
	for name, tc := range map[string]struct {
		scene  *scene
		reason string
	}{
		"nothing is left of it":     {gone(row(2, "w-zone-0#1", "").ordered(0, 1)), v1alpha1.ReasonWaitingForNodes},
		"a region is ordered to it": {gone(row(2, "w-zone-0#1", "").ordered(0, 2)), v1alpha1.ReasonSessionRevoked},
		"it holds a region":         {gone(row(2, "w-zone-0#1", "w-zone-2#4").ordered(0, 1)), v1alpha1.ReasonSessionRevoked},
		"it is wanted again":        {gone(row(3, "w-zone-0#1", "").ordered(0, 1)), v1alpha1.ReasonSessionRevoked},
	} {
		if v := tc.scene.regionsOwned(); v.ok || v.reason != tc.reason {
			t.Errorf("%s: %s, %q; want %s", name, v.reason, v.message, tc.reason)
		}
	}
}

// watched lets the session Leases be seen unchanged for a time.
func (s *scene) watched(unchanged time.Duration) *scene {
	for at := time.Duration(0); at <= unchanged; at += time.Second {
		s.memory.sessions.Observe(at, at, time.Minute, s.sightings())
	}
	return s
}

func TestASessionIsSilentByTheDeadlineThatItsNodeGoesBy(t *testing.T) {
	promising := func(seconds int32) *scene {
		s := row(1, "w-zone-0#1").session(0, 1, true)
		s.sessions[0].Spec.LeaseDurationSeconds = &seconds
		return s
	}
	for name, tc := range map[string]struct {
		scene  *scene
		silent bool
	}{
		"within the deadline of the spec":            {row(1, "").session(0, 1, true).watched(10 * time.Second), false},
		"beyond it":                                  {row(1, "").session(0, 1, true).watched(11 * time.Second), true},
		"beyond it, and the node goes by it":         {promising(15).watched(11 * time.Second), true},
		"the node renews by an earlier, longer spec": {promising(90).watched(59 * time.Second), false},
		"beyond the deadline of that, too":           {promising(90).watched(61 * time.Second), true},
		"the node goes by a shorter spec":            {promising(6).watched(10 * time.Second), false},
	} {
		if got := tc.scene.silent(0); got != tc.silent {
			t.Errorf("%s: silent %t, want %t", name, got, tc.silent)
		}
	}
}
