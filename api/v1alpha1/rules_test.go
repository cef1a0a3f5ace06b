package v1alpha1_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/spatialcells/spatialcells/hack/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m) }

const smallest = `
apiVersion: spatialcells.io/v1alpha1
kind: World
metadata: {name: genesis}
spec:
  grid: {columns: 16, rows: 8}
  nodes: {replicas: 4}
`

// rule is one object, or one edit, and the words with which it is refused; none if it is accepted.
type rule struct {
	name string
	edit string // merged into the object: null removes
	says string
}

func TestWorldsThatAreRefused(t *testing.T) {
	for _, r := range []rule{
		{"the smallest World", ``, ""},
		{"a name of 40 characters", `metadata: {name: ` + strings.Repeat("w", 40) + `}`, ""},
		{"a name of 41 characters", `metadata: {name: ` + strings.Repeat("w", 41) + `}`, "choose a shorter one"},
		{"a name with a dot", `metadata: {name: gen.esis}`, "must start with a letter and hold only"},
		{"a name that begins with a digit", `metadata: {name: 1genesis}`, "must start with a letter and hold only"},

		{"the smallest region", `spec: {grid: {regionEdgeChunks: 15}}`, ""},
		{"a region of 10 chunks", `spec: {grid: {regionEdgeChunks: 10}}`, "regionEdgeChunks must be at least 15"},
		{"no columns", `spec: {grid: {columns: 0}}`, "should be greater than or equal to 1"},
		{"no grid", `spec: {grid: null}`, "spec.grid: Required value"},
		{"4096 regions", `spec: {grid: {columns: 64, rows: 64}}`, ""},
		{"more than 64 rows", `spec: {grid: {columns: 1, rows: 65}}`, "should be less than or equal to 64"},

		{"one region and two nodes", `spec: {grid: {columns: 1, rows: 1}, nodes: {replicas: 2}}`, ""},
		{"64 nodes", `spec: {nodes: {replicas: 64}}`, ""},
		{"65 nodes", `spec: {nodes: {replicas: 65}}`, "should be less than or equal to 64"},
		{"no replicas", `spec: {nodes: {replicas: null}}`, "spec.nodes.replicas: Required value"},
		{"a template", `spec: {nodes: {template: {spec: {nodeSelector: {a: b}}}}}`, ""},
		{"a template that is a list", `spec: {nodes: {template: [1]}}`, "must be of type object"},
		{"a template that the operator will not like", `spec: {nodes: {template: {spec: {nodeSelektor: {a: b}}}}}`, ""},

		{"a pin", `spec: {assignment: {areas: [{ordinal: 3, column: 15, row: 7}]}}`, ""},
		{"a rectangle over both seams", `spec: {assignment: {areas: [{ordinal: 0, column: 15, row: 7, width: 16, height: 8}]}}`, ""},
		{"an area beyond the last column", `spec: {assignment: {areas: [{ordinal: 0, column: 16, row: 0}]}}`, "starts beyond the grid: column must be below grid.columns"},
		{"an area beyond the last row", `spec: {assignment: {areas: [{ordinal: 0, column: 0, row: 8}]}}`, "starts beyond the grid"},
		{"an area wider than the grid", `spec: {assignment: {areas: [{ordinal: 0, column: 0, row: 0, width: 17}]}}`, "larger than the grid"},
		{"an area higher than the grid", `spec: {assignment: {areas: [{ordinal: 0, column: 0, row: 0, height: 9}]}}`, "larger than the grid"},
		{"an ordinal beyond replicas", `spec: {assignment: {areas: [{ordinal: 4, column: 0, row: 0}]}}`, "names an ordinal that nodes.replicas does not have: edit those areas first, or raise nodes.replicas"},
		{"the ordinals of a stopped World", `spec: {nodes: {replicas: 0}, assignment: {areas: [{ordinal: 4, column: 0, row: 0}]}}`, ""},
		{"Manual with a hole", `spec: {assignment: {policy: Manual, areas: [{ordinal: 0, column: 0, row: 0}]}}`, ""},
		{"Manual without areas", `spec: {assignment: {policy: Manual}}`, "paint the whole grid, or use policy Balanced"},
		{"an unknown policy", `spec: {assignment: {policy: Random}}`, "Unsupported value"},

		{"a tight fence", `spec: {fencing: {leaseDurationSeconds: 9, renewDeadlineSeconds: 6, renewPeriodSeconds: 2}}`, ""},
		{"a deadline too near the lease duration", `spec: {fencing: {leaseDurationSeconds: 15, renewDeadlineSeconds: 11}}`, "at least 1.5 times renewDeadlineSeconds"},
		{"a lease shorter than the default deadline allows", `spec: {fencing: {leaseDurationSeconds: 10}}`, "at least 1.5 times renewDeadlineSeconds"},
		{"too few renewals before the deadline", `spec: {fencing: {renewPeriodSeconds: 4}}`, "at least 3 times renewPeriodSeconds"},

		{"a managed store", `spec: {store: {managed: {}}}`, ""},
		{"an external store", `spec: {store: {external: {addresses: ["valkey:6379"]}}}`, ""},
		{"both stores", `spec: {store: {managed: {}, external: {addresses: ["valkey:6379"]}}}`, "exactly one of managed and external: remove one of them"},
		{"no store in store", `spec: {store: {}}`, "exactly one of managed and external"},
		{"an external store without addresses", `spec: {store: {external: {}}}`, "addresses: Required value"},
		{"a managed store in words", `spec: {store: {managed: {image: "valkey:9", storage: {size: 2Gi, className: fast}, resources: {limits: {memory: 4Gi}}, deletionPolicy: Retain}}}`, ""},
		{"a volume that goes with the World", `spec: {store: {managed: {deletionPolicy: Delete}}}`, "Unsupported value"},
		{"a size that is none", `spec: {store: {managed: {storage: {size: huge}}}}`, "spec.store.managed.storage.size"},
		{"an external store with TLS and a user", `spec: {store: {external: {addresses: ["10.0.0.1:6380"], credentialsSecretName: a, caSecretName: b}}}`, ""},
		{"an external store at an IPv6 address", `spec: {store: {external: {addresses: ["[2001:db8::1]:6379"]}}}`, ""},
		{"an address without a port", `spec: {store: {external: {addresses: ["valkey"]}}}`, "must each be host:port"},
		{"an address with a scheme", `spec: {store: {external: {addresses: ["redis://valkey:6379"]}}}`, "without a scheme and a user"},
		{"an address with a password", `spec: {store: {external: {addresses: [":pw@valkey:6379"]}}}`, "without a scheme and a user"},
		{"two addresses of one server", `spec: {store: {external: {addresses: ["a:6379", "b:6379"]}}}`, "use mode Sentinel and name the sentinels"},
		{"sentinels", `spec: {store: {external: {mode: Sentinel, addresses: ["a:26379", "b:26379"], primaryName: worlds}}}`, ""},
		{"sentinels that are not told of whom", `spec: {store: {external: {mode: Sentinel, addresses: ["a:26379"]}}}`, "the name by which the sentinels know the primary"},
		{"a primary's name without sentinels", `spec: {store: {external: {addresses: ["a:6379"], primaryName: worlds}}}`, "primaryName belongs to mode Sentinel"},
		{"a primary's name that is none", `spec: {store: {external: {mode: Sentinel, addresses: ["a:26379"], primaryName: "a/b"}}}`, "primaryName may hold only"},
		{"a store of a cluster", `spec: {store: {external: {mode: Cluster, addresses: ["valkey:6379"]}}}`, "Unsupported value"},

		{"a port that is none", `spec: {gateway: {port: 65536}}`, "should be less than or equal to 65535"},
		{"an unknown service type", `spec: {gateway: {serviceType: ExternalName}}`, "Unsupported value"},
		{"one move at a time", `spec: {handoff: {maxConcurrentRegions: 1, regionTimeoutSeconds: 5}}`, ""},
		{"no move at a time", `spec: {handoff: {maxConcurrentRegions: 0}}`, "should be greater than or equal to 1"},
		{"more moves at once than a World of default size has regions", `spec: {handoff: {maxConcurrentRegions: 257}}`, "should be less than or equal to 256"},
		{"an order that nobody can follow in time", `spec: {handoff: {regionTimeoutSeconds: 4}}`, "should be greater than or equal to 5"},

		{"a window", window(``), ""},
		{"a window in another zone", window(`timeZone: Europe/Berlin`), ""},
		{"a window of the operator's own zone", window(`timeZone: Local`), "timeZone Local is that of the operator's machine"},
		{"a window without a name", window(`name: null`), "name: Required value"},
		{"a window whose name has blanks", window(`name: "tuesday night"`), "the name of a window may hold only"},
		{"a window without a duration", window(`durationSeconds: null`), "durationSeconds: Required value"},
		{"a window of a minute", window(`durationSeconds: 60`), ""},
		{"a window of a second", window(`durationSeconds: 1`), "should be greater than or equal to 60"},
		{"a window of more than a week", window(`durationSeconds: 604801`), "should be less than or equal to 604800"},
		{"a zone in the cron expression", window(`cron: "CRON_TZ=UTC 30 4 * * *"`), "cron may not name a time zone"},
		{"a cron shorthand", window(`cron: "@every 1h30m"`), "cron must be five fields"},
		{"a cron expression that only the operator can refuse", window(`cron: "61 25 * * *"`), ""},
		{"windows of one name", `spec: {maintenance: {windows: [{name: a, cron: "30 4 * * *", durationSeconds: 900}, {name: a, cron: "30 5 * * *", durationSeconds: 900}]}}`, "Duplicate value"},
		{"a list of nothing that waits", `spec: {maintenance: {confine: []}}`, "should have at least 1 items"},
		{"some of what can wait", `spec: {maintenance: {confine: [Rollouts, BoundaryMoves]}}`, ""},
		{"something else that waits", `spec: {maintenance: {confine: [Failovers]}}`, "Unsupported value"},
		{"an exclusion", exclusion("2026-12-18T00:00:00Z", "2026-12-28T00:00:00Z"), ""},
		{"an exclusion across time zones", exclusion("2026-12-18T00:00:00+01:00", "2026-12-17T23:30:00Z"), ""},
		{"an exclusion that ends before it starts", exclusion("2026-12-28T00:00:00Z", "2026-12-18T00:00:00Z"), "endTime of an exclusion must be after its startTime"},
		{"an exclusion of no time", exclusion("2026-12-18T00:00:00Z", "2026-12-18T00:00:00Z"), "endTime of an exclusion must be after its startTime"},
		{"an exclusion whose end is no time", exclusion("2026-12-18T00:00:00Z", "christmas"), "must be of type date-time"},
		{"an override", `spec: {maintenance: {override: {executionTime: Immediate, endTime: "2026-12-18T05:00:00Z", reason: hotfix}}}`, ""},
		{"an override without an end", `spec: {maintenance: {override: {executionTime: Immediate, reason: hotfix}}}`, "endTime: Required value"},
		{"an override without a reason", `spec: {maintenance: {override: {executionTime: Immediate, endTime: "2026-12-18T05:00:00Z"}}}`, "reason: Required value"},
		{"an override to some time", `spec: {maintenance: {override: {executionTime: Soon, endTime: "2026-12-18T05:00:00Z", reason: hotfix}}}`, "Unsupported value"},
		{"an announcement of a day", `spec: {maintenance: {announceSeconds: 86400}}`, ""},
		{"an announcement after the fact", `spec: {maintenance: {announceSeconds: -1}}`, "should be greater than or equal to 0"},
		{"a field of a later version", `spec: {rebalancing: {mode: Propose}}`, `unknown field "spec.rebalancing"`},
		{"a misspelt field", `spec: {nodes: {replica: 4}}`, `unknown field "spec.nodes.replica"`},
		{"an unknown management", `spec: {managementPolicy: Ignored}`, "Unsupported value"},
	} {
		t.Run(r.name, func(t *testing.T) {
			cfg := envtest.Start(t)
			object := edited(t, smallest, r.edit)
			object.SetNamespace("default")
			expect(t, strict(t, cfg).Create(t.Context(), object, client.DryRunAll), r.says)
		})
	}
}

// window is an edit that adds a window, with one field of it changed; null removes it.
func window(change string) string {
	fields := map[string]any{"name": "nightly", "cron": "30 4 * * *", "durationSeconds": 5400}
	var changes map[string]any
	if err := yaml.Unmarshal([]byte(change), &changes); err != nil {
		panic(err)
	}
	mergeMaps(fields, changes)
	edit, err := yaml.Marshal(map[string]any{"spec": map[string]any{"maintenance": map[string]any{"windows": []any{fields}}}})
	if err != nil {
		panic(err)
	}
	return string(edit)
}

func exclusion(start, end string) string {
	return `spec: {maintenance: {exclusions: [{name: launch, startTime: "` + start + `", endTime: "` + end + `"}]}}`
}

const areas = "{ordinal: 3, column: 0, row: 0}"

func TestEditsOfAWorldThatAreRefused(t *testing.T) {
	cfg := envtest.Start(t)
	c, namespace := strict(t, cfg), envtest.Namespace(t, cfg)
	living := edited(t, smallest, `spec: {seedSecretName: mine, assignment: {areas: [`+areas+`]}}`)
	living.SetNamespace(namespace)
	if err := c.Create(t.Context(), living); err != nil {
		t.Fatal(err)
	}
	for _, r := range []rule{
		{"more nodes", `spec: {nodes: {replicas: 8}}`, ""},
		{"fewer nodes than an area names", `spec: {nodes: {replicas: 3}}`, "names an ordinal that nodes.replicas does not have"},
		{"hibernation", `spec: {nodes: {replicas: 0}}`, ""},
		{"one more area", `spec: {assignment: {areas: [` + areas + `, {ordinal: 1, column: 4, row: 4}]}}`, ""},
		{"a changed grid", `spec: {grid: {columns: 8}}`, "grid is immutable"},
		{"changed regions", `spec: {grid: {regionEdgeChunks: 100}}`, "grid is immutable"},
		{"another seed", `spec: {seedSecretName: yours}`, "seedSecretName is immutable"},
		{"no seed", `spec: {seedSecretName: null}`, "seedSecretName is immutable"},
		{"the same store in words", `spec: {store: {managed: {}}}`, ""},
		{"another store", `spec: {store: {external: {addresses: ["valkey:6379"]}}}`, "store cannot be switched between managed and external"},
		{"an image of the store", `spec: {store: {managed: {image: "valkey:9"}}}`, ""},
		{"another volume", `spec: {store: {managed: {storage: {size: 20Gi}}}}`, "edit the claim data-<world>-store-0"},
		{"a pause", `spec: {managementPolicy: Paused}`, ""},
		{"more moves at once", `spec: {handoff: {maxConcurrentRegions: 16}}`, ""},
		{"windows", window(""), ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			object := merge(t, living, r.edit)
			expect(t, c.Update(t.Context(), object, client.DryRunAll), r.says)
		})
	}
}

func TestExternalStoreIsNotSwitchedToManaged(t *testing.T) {
	cfg := envtest.Start(t)
	c := strict(t, cfg)
	living := edited(t, smallest, `spec: {store: {external: {addresses: ["valkey:6379"]}}}`)
	living.SetNamespace(envtest.Namespace(t, cfg))
	if err := c.Create(t.Context(), living); err != nil {
		t.Fatal(err)
	}
	for _, edit := range []string{`spec: {store: null}`, `spec: {store: {external: null, managed: {}}}`} {
		expect(t, c.Update(t.Context(), merge(t, living, edit), client.DryRunAll), "store cannot be switched between managed and external")
	}
	expect(t, c.Update(t.Context(), merge(t, living, `spec: {store: {external: {addresses: ["other:6379"]}}}`), client.DryRunAll), "")
}

const rebalance = `
apiVersion: spatialcells.io/v1alpha1
kind: Rebalance
metadata: {name: genesis-1}
spec: {worldName: genesis, mode: Full}
`

const zoneNode = `
apiVersion: spatialcells.io/v1alpha1
kind: ZoneNode
metadata: {name: genesis-zone-2}
spec: {worldName: genesis, ordinal: 2}
`

func TestRebalancesAndZoneNodesThatAreRefused(t *testing.T) {
	for kind, rules := range map[string][]rule{
		rebalance: {
			{"all", ``, ""},
			{"a drain", `spec: {mode: DrainNodes, drainOrdinals: [1]}`, ""},
			{"a drain of nothing", `spec: {mode: DrainNodes}`, "drainOrdinals belongs to mode DrainNodes"},
			{"a drain without its mode", `spec: {drainOrdinals: [1]}`, "drainOrdinals belongs to mode DrainNodes"},
			{"no World", `spec: {worldName: null}`, "worldName: Required value"},
		},
		zoneNode: {
			{"a node", ``, ""},
			{"a drained node", `spec: {drainReasons: [Rollout, User]}`, ""},
			{"one reason twice", `spec: {drainReasons: [User, User]}`, "Duplicate value"},
			{"an unknown reason", `spec: {drainReasons: [Mood]}`, "Unsupported value"},
		},
	} {
		for _, r := range rules {
			t.Run(r.name, func(t *testing.T) {
				cfg := envtest.Start(t)
				object := edited(t, kind, r.edit)
				object.SetNamespace("default")
				expect(t, strict(t, cfg).Create(t.Context(), object, client.DryRunAll), r.says)
			})
		}
	}
}

func TestWhatARebalanceOrAZoneNodeIsAboutIsImmutable(t *testing.T) {
	cfg := envtest.Start(t)
	c, namespace := strict(t, cfg), envtest.Namespace(t, cfg)
	for kind, edits := range map[string][]string{
		rebalance: {`spec: {worldName: eden}`, `spec: {mode: DrainNodes, drainOrdinals: [1]}`},
		zoneNode:  {`spec: {worldName: eden}`, `spec: {ordinal: 1}`},
	} {
		living := edited(t, kind, "")
		living.SetNamespace(namespace)
		if err := c.Create(t.Context(), living); err != nil {
			t.Fatal(err)
		}
		for _, edit := range edits {
			expect(t, c.Update(t.Context(), merge(t, living, edit), client.DryRunAll), "are immutable")
		}
	}
}

// expect fails unless err is nil when nothing is to be said, else a refusal with these words.
func expect(t *testing.T, err error, says string) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Errorf("refused: %v", err)
	case says != "" && err == nil:
		t.Errorf("accepted, want a refusal with %q", says)
	case says != "" && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err), says != "" && !strings.Contains(err.Error(), says):
		t.Errorf("got %v, want a refusal with %q", err, says)
	}
}

func edited(t *testing.T, text, edit string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return merge(t, object, edit)
}

// merge returns a copy of the object with an edit merged in.
func merge(t *testing.T, object *unstructured.Unstructured, edit string) *unstructured.Unstructured {
	t.Helper()
	var changes map[string]any
	if err := yaml.Unmarshal([]byte(edit), &changes); err != nil {
		t.Fatal(err)
	}
	object = object.DeepCopy()
	mergeMaps(object.Object, changes)
	return object
}

func mergeMaps(into, changes map[string]any) {
	for key, change := range changes {
		inner, isMap := change.(map[string]any)
		have, hasMap := into[key].(map[string]any)
		switch {
		case change == nil:
			delete(into, key)
		case isMap && hasMap:
			mergeMaps(have, inner)
		default:
			into[key] = change
		}
	}
}
