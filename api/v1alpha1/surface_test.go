package v1alpha1_test

import (
	"encoding/json"
	"slices"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/hack/envtest"
)

// strict is a client that, like kubectl, has unknown fields refused.
func strict(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	return client.WithFieldValidation(envtest.Client(t, cfg), metav1.FieldValidationStrict)
}

func TestDefaultsOfTheSmallestWorld(t *testing.T) {
	cfg := envtest.Start(t)
	object := edited(t, smallest, "")
	object.SetNamespace(envtest.Namespace(t, cfg))
	if err := strict(t, cfg).Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	var world v1alpha1.World
	if err := envtest.Client(t, cfg).Get(t.Context(), client.ObjectKeyFromObject(object), &world); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.WorldSpec{
		Grid:             v1alpha1.GridSpec{Columns: 16, Rows: 8, RegionEdgeChunks: 250},
		Nodes:            v1alpha1.NodesSpec{Replicas: new(int32(4)), DrainTimeoutSeconds: 300},
		Assignment:       v1alpha1.AssignmentSpec{Policy: v1alpha1.AssignmentBalanced},
		Fencing:          v1alpha1.FencingSpec{LeaseDurationSeconds: 15, RenewDeadlineSeconds: 10, RenewPeriodSeconds: 2},
		Failover:         v1alpha1.FailoverSpec{RedistributionDelaySeconds: new(int32(30))},
		Handoff:          v1alpha1.HandoffSpec{MaxConcurrentRegions: 4, RegionTimeoutSeconds: 60},
		Gateway:          v1alpha1.GatewaySpec{ServiceType: "ClusterIP", Port: 8080},
		ManagementPolicy: v1alpha1.ManagementManaged,
	}
	if got, expected := text(t, world.Spec), text(t, want); got != expected {
		t.Errorf("got  %s\nwant %s", got, expected)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestKubectlGetShowsWhatMatters(t *testing.T) {
	cfg := envtest.Start(t)
	for resource, want := range map[string][]string{
		"worlds":     {"Name", "Regions", "Nodes", "Players", "Ready", "Reason", "Age"},
		"zonenodes":  {"Name", "World", "Session", "Regions", "Entities", "Players", "Tick p99 us", "Margin ms", "Ready", "Age"},
		"rebalances": {"Name", "World", "Mode", "Proposal", "Reason", "Age"},
	} {
		if got := columns(t, cfg, resource); !slices.Equal(got, want) {
			t.Errorf("%s: got columns %q, want %q", resource, got, want)
		}
	}
}

// columns are those that kubectl shows without -o wide.
func columns(t *testing.T, cfg *rest.Config, resource string) []string {
	t.Helper()
	body, err := discovery.NewDiscoveryClientForConfigOrDie(cfg).RESTClient().Get().
		AbsPath("/apis/spatialcells.io/v1alpha1/"+resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			names = append(names, column.Name)
		}
	}
	return names
}

func TestShortNamesAndCategory(t *testing.T) {
	cfg := envtest.Start(t)
	list, err := discovery.NewDiscoveryClientForConfigOrDie(cfg).ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"worlds": "wld", "zonenodes": "zn", "rebalances": "rbl"}
	for _, resource := range list.APIResources {
		if short, ok := want[resource.Name]; ok {
			if !slices.Contains(resource.ShortNames, short) || !slices.Contains(resource.Categories, "spatialcells") {
				t.Errorf("%s: short names %q, categories %q", resource.Name, resource.ShortNames, resource.Categories)
			}
			delete(want, resource.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("not served: %v", want)
	}
}

func TestScalingIsBoundByTheAreas(t *testing.T) {
	cfg := envtest.Start(t)
	c := envtest.Client(t, cfg)
	object := edited(t, smallest, `spec: {assignment: {areas: [`+areas+`]}}`)
	object.SetNamespace(envtest.Namespace(t, cfg))
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	world := &v1alpha1.World{ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), Namespace: object.GetNamespace()}}
	scale := func(replicas int32) error {
		return c.SubResource("scale").Update(t.Context(), world,
			client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}))
	}
	expect(t, scale(3), "names an ordinal that nodes.replicas does not have")
	if err := scale(6); err != nil {
		t.Errorf("scaling up: %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(world), world); err != nil || *world.Spec.Nodes.Replicas != 6 {
		t.Errorf("scaled to 6, got %v, %v", world.Spec.Nodes.Replicas, err)
	}
}

func TestStatusOfZeroIsShown(t *testing.T) {
	got := text(t, v1alpha1.WorldStatus{Regions: v1alpha1.RegionsStatus{Total: 4}})
	if want := `{"regions":{"total":4,"owned":0,"moving":0,"away":0},"players":0}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
