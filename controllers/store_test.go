package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers"
	"github.com/spatialcells/spatialcells/node/store/connect"
)

// fakeStore answers for the store that no kubelet starts here.
type fakeStore struct {
	mu     sync.Mutex
	report connect.Report
	err    error
	// silent makes it answer nothing until the asker gives up.
	silent bool
	asked  []connect.Config
	writes int
}

// newFakeStore is a new store that is as it should be.
func newFakeStore() *fakeStore {
	return &fakeStore{report: connect.Report{Server: "valkey", Version: "8.1.0", Role: "master", AOF: true, Fsync: "always", Eviction: "noeviction"}}
}

func (f *fakeStore) access() controllers.StoreAccess {
	return controllers.StoreAccess{
		Inspect: func(ctx context.Context, c connect.Config) (connect.Report, error) {
			f.mu.Lock()
			f.asked = append(f.asked, c)
			report, err, silent := f.report, f.err, f.silent
			f.mu.Unlock()
			if silent {
				<-ctx.Done()
				return connect.Report{}, ctx.Err()
			}
			return report, err
		},
		Identify: func(_ context.Context, _ connect.Config, id string) (string, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.writes++
			if f.report.StoreID == "" {
				f.report.StoreID = id
			}
			return f.report.StoreID, nil
		},
	}
}

// change changes what the store is, and returns the ways in which it was asked so far.
func (f *fakeStore) change(how func(*fakeStore)) []connect.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
	return slices.Clone(f.asked)
}

func (b *bench) awaitStore(status metav1.ConditionStatus, reason string) string {
	b.Helper()
	b.awaitCondition(v1alpha1.ConditionStoreReady, status, reason)
	return b.message(v1alpha1.ConditionStoreReady)
}

func TestAManagedStoreHasAVolumeAPasswordAndAnID(t *testing.T) {
	b := newBench(t)
	world := b.world(2, 1, 1)
	world.Spec.Store = &v1alpha1.StoreSpec{Managed: &v1alpha1.ManagedStore{Storage: v1alpha1.StoreStorage{Size: new(resource.MustParse("2Gi")), ClassName: "fast"}}}
	world = b.apply(world)
	set, secret := &appsv1.StatefulSet{}, &corev1.Secret{}
	b.exists(set, "genesis-store")
	b.exists(secret, "genesis-store")
	container := set.Spec.Template.Spec.Containers[0]
	password := string(secret.Data["password"])
	if len(password) < 32 || string(secret.Data["auth.conf"]) != "requirepass "+password+"\n" {
		t.Errorf("the Secret has the keys %v", len(secret.Data))
	}
	if raw := fmt.Sprint(set.Spec.Template.Spec); strings.Contains(raw, password) {
		t.Error("the password is in the pod")
	}
	if container.Image != controllers.DefaultStoreImage || container.ReadinessProbe == nil || *set.Spec.Template.Spec.TerminationGracePeriodSeconds < 30 {
		t.Errorf("container %+v", container)
	}
	claim := set.Spec.VolumeClaimTemplates[0]
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.String() != "2Gi" || *claim.Spec.StorageClassName != "fast" || len(claim.OwnerReferences) > 0 {
		t.Errorf("claim %+v", claim)
	}
	if policy := set.Spec.PersistentVolumeClaimRetentionPolicy; policy.WhenDeleted != "Retain" || policy.WhenScaled != "Retain" {
		t.Errorf("claims: %+v", policy)
	}
	if !strings.HasPrefix(world.Status.StoreID, b.ns+"/genesis/") {
		t.Errorf("store id %q", world.Status.StoreID)
	}
	args := b.statefulSet().Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{"--store-id=" + world.Status.StoreID, "--store-password-file=/etc/spatialcells/store-credentials/password"} {
		if !slices.Contains(args, want) {
			t.Errorf("the zone nodes have no argument %s: %s", want, args)
		}
	}
	b.store.change(func(f *fakeStore) {
		if c := f.asked[len(f.asked)-1]; f.report.StoreID != world.Status.StoreID || f.writes != 1 || !strings.HasPrefix(c.URL, "redis://") {
			t.Errorf("the store has id %q after %d writes, asked at %s", f.report.StoreID, f.writes, c.URL)
		} else if known, err := c.Credentials(); err != nil || known.Password != password {
			t.Errorf("asked with another password (%v)", err)
		}
	})
	b.edit(func(w *v1alpha1.World) { w.Spec.Store.Managed.Image = "valkey:9" })
	b.await("the image in the StatefulSet", func() (bool, string) {
		b.exists(set, "genesis-store")
		return set.Spec.Template.Spec.Containers[0].Image == "valkey:9", set.Spec.Template.Spec.Containers[0].Image
	})
	b.settled()
	b.quiet(25 * time.Second) // two more looks at the store
}

func TestAStoreThatIsNotReadyStartsNoNodeAndSaysWhatToDo(t *testing.T) {
	b := newBench(t)
	b.store.change(func(f *fakeStore) { f.err = errors.New("dial tcp 10.0.0.1:6379: connection refused") })
	b.create(b.world(2, 1, 1))
	b.awaitStore(metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
	b.store.change(func(f *fakeStore) { f.err = fmt.Errorf("x: %w", connect.ErrCredentials) })
	b.awaitStore(metav1.ConditionFalse, v1alpha1.ReasonWrongPassword)
	b.store.change(func(f *fakeStore) { f.err, f.report.AOF = nil, false })
	b.awaitStore(metav1.ConditionFalse, v1alpha1.ReasonNotDurable)
	if err := b.client.Get(t.Context(), b.key("genesis-zone"), &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("zone nodes were made: %v", err)
	}
	b.store.change(func(f *fakeStore) { f.report.AOF = true })
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
}

func TestAnotherStoreStartsNothingAndTouchesNothing(t *testing.T) {
	b := newBench(t)
	b.store.change(func(f *fakeStore) { f.report.StoreID = "other/eden/0000/x" })
	b.create(b.world(2, 1, 1))
	b.awaitStore(metav1.ConditionFalse, v1alpha1.ReasonWrongStore)
	b.awaitCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonWrongStore)
	if err := b.client.Get(t.Context(), b.key("genesis-zone"), &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("zone nodes were made: %v", err)
	}
	b.store.change(func(f *fakeStore) { f.report.StoreID = "" })
	id := b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing).Status.StoreID

	b.store.change(func(f *fakeStore) { f.report.StoreID = "" })
	b.awaitStore(metav1.ConditionFalse, v1alpha1.ReasonWrongStore)
	before := b.statefulSet().Generation
	b.edit(func(w *v1alpha1.World) { w.Spec.Nodes.Image = "zone-node:newer" })
	b.awaitCondition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonWrongStore)
	b.settled()
	if now := b.statefulSet(); now.Generation != before {
		t.Error("the zone nodes were changed")
	}
	b.store.change(func(f *fakeStore) { f.report.StoreID = id })
	if world := b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing); world.Status.StoreID != id {
		t.Errorf("the id became %q", world.Status.StoreID)
	}
}

func TestAnExternalStoreNeedsItsSecretsAndIsReachedWithThem(t *testing.T) {
	b := newBench(t)
	world := b.world(2, 1, 1)
	world.Spec.Store = &v1alpha1.StoreSpec{External: &v1alpha1.ExternalStore{
		Mode: v1alpha1.StoreSentinel, Addresses: []string{"a:26379", "b:26379"}, PrimaryName: "worlds",
		CredentialsSecretName: "keys", CASecretName: "authority",
	}}
	b.create(world)
	b.awaitStore(metav1.ConditionFalse, v1alpha1.ReasonSecretMissing)
	keys := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "keys", Namespace: b.ns},
		StringData: map[string]string{"username": "ada", "password": "pw\n", "sentinelPassword": "spw"},
	}
	b.create(keys)
	b.await("the other Secret to be missed", func() (bool, string) {
		m := b.message(v1alpha1.ConditionStoreReady)
		return strings.Contains(m, "authority"), m
	})
	b.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "authority", Namespace: b.ns}, StringData: map[string]string{"ca.crt": "PEM"}})
	b.awaitCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonServing)
	asked := b.store.change(func(*fakeStore) {})
	last := asked[len(asked)-1]
	if known, err := last.Credentials(); err != nil || known != (connect.Credentials{Username: "ada", Password: "pw"}) ||
		last.Sentinel.Password != "spw" || string(last.CA) != "PEM" || last.URL != "rediss+sentinel://a:26379,b:26379/worlds" {
		t.Errorf("asked %s as %s (%v)", last.URL, known.Username, err)
	}
	if err := b.client.Get(t.Context(), b.key("genesis-store"), &appsv1.StatefulSet{}); !apierrors.IsNotFound(err) {
		t.Errorf("a store was made: %v", err)
	}
	pod := b.statefulSet().Spec.Template.Spec
	for _, want := range []string{"--store=rediss+sentinel://a:26379,b:26379/worlds", "--store-username-file=", "--store-sentinel-password-file=", "--store-ca-file="} {
		if !slices.ContainsFunc(pod.Containers[0].Args, func(a string) bool { return strings.HasPrefix(a, want) }) {
			t.Errorf("the zone nodes have no argument %s: %s", want, pod.Containers[0].Args)
		}
	}
	b.store.change(func(f *fakeStore) { f.report.Fsync = "everysec" })
	if m := b.awaitStore(metav1.ConditionTrue, v1alpha1.ReasonNotDurable); !strings.Contains(m, "WARNING") {
		t.Errorf("the message is %q", m)
	}
	if m := b.message(v1alpha1.ConditionReady); !strings.Contains(m, "WARNING") {
		t.Errorf("Ready says %q", m)
	}
	if err := b.client.Delete(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	b.awaitStore(metav1.ConditionFalse, v1alpha1.ReasonSecretMissing)
}

// TestASilentStoreHoldsUpNoFailover: while the store answers nothing, a dead node's regions go to a live one in the time that
// its Lease allows.
func TestASilentStoreHoldsUpNoFailover(t *testing.T) {
	b := newBench(t)
	b.apply(b.mortal(4, 1, 2))
	b.store.change(func(f *fakeStore) { f.silent = true })
	b.awaitStore(metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
	b.nodes.halt()
	b.nodes.freeze("genesis-zone-1")
	b.await("the heir", func() (bool, string) {
		held := 0
		for _, lease := range b.regions() {
			if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == "genesis-zone-0#1" {
				held++
			}
		}
		return held == 4, fmt.Sprintf("%d of 4", held)
	})
	b.store.change(func(f *fakeStore) { f.silent = false })
	b.awaitStore(metav1.ConditionTrue, v1alpha1.ReasonStoreReady)
}
