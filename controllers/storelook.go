package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/store/connect"
)

const (
	// lookPatience bounds one look at a store.
	lookPatience = 3 * time.Second
	// lookAgain is when a store that is well is looked at again, and lookSoon one that is not.
	lookAgain = 10 * time.Second
	lookSoon  = 2 * time.Second
	// maxLooks bounds the looks under way, over all Worlds.
	maxLooks = 16
	// maxFindings bounds the Worlds that wait to be told of a finding; the others are told by their next reconcile.
	maxFindings = 256
)

// StoreAccess is how the operator asks a store. The zero value asks real ones.
type StoreAccess struct {
	Inspect  func(ctx context.Context, c connect.Config) (connect.Report, error)
	Identify func(ctx context.Context, c connect.Config, id string) (string, error)
}

func (a StoreAccess) withDefaults() StoreAccess {
	if a.Inspect == nil {
		a.Inspect = connect.Inspect
	}
	if a.Identify == nil {
		a.Identify = connect.Identify
	}
	return a
}

// storeLooks looks at stores beside the reconciles: a store that does not answer must hold up nobody's failover.
type storeLooks struct {
	once  sync.Once
	slots chan struct{}
	// found wakes the World of a finding.
	found chan event.GenericEvent
}

func (l *storeLooks) init() {
	l.once.Do(func() {
		l.slots = make(chan struct{}, maxLooks)
		l.found = make(chan event.GenericEvent, maxFindings)
	})
}

// storeMemory is what the last look at a World's store found.
type storeMemory struct {
	mu      sync.Mutex
	looking bool
	asked   question
	finding *storeFinding
	at      time.Time
}

// question is what a look depends on; another one makes the last finding void.
type question struct {
	url                 string
	credentials, ca     string
	knownID, terrain    string
	namespace, world    string
	managed, podRunning bool
}

// storeFinding is what one look found.
type storeFinding struct {
	// err is why the store could not be asked, missing why we did not even try: a Secret or a key is not there.
	err     error
	missing string
	// keys are those that the Secret of credentials has.
	keys   []string
	report connect.Report
}

// storeView is what a reconcile knows of its store.
type storeView struct {
	question
	finding *storeFinding
}

// reachKnown tells whether it is known what a zone node needs to reach the store.
func (v storeView) reachKnown() bool {
	return v.finding != nil && (v.credentials == "" || len(v.finding.keys) > 0)
}

// lookAtStore returns what the last look found, nil if there was none yet, and starts another one when it is time.
func (r *WorldReconciler) lookAtStore(s *scene, url string) storeView {
	q := question{
		url: url, knownID: s.storeID, terrain: s.memory.terrain, namespace: s.world.Namespace, world: s.world.Name,
		managed: s.externalStore() == nil,
	}
	if external := s.externalStore(); external != nil {
		q.credentials, q.ca = external.CredentialsSecretName, external.CASecretName
	} else {
		q.credentials, q.podRunning = storeSecretName(s.world.Name), podReady(s.storePod)
	}
	m := &s.memory.store
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.asked.same(q) {
		m.finding = nil
	}
	view := storeView{question: q, finding: m.finding}
	if due := m.at.Add(m.pace()); m.finding != nil && m.asked == q && s.now.Before(due) {
		s.wake(due.Sub(s.now))
		return view
	}
	if !m.looking && r.startLook(m, client.ObjectKeyFromObject(s.world), q) {
		m.looking, m.asked = true, q
	}
	return view
}

// same tells whether a finding about one question answers another one. An id that has become known since does not make it void,
// nor does a pod that has started: the next look tells.
func (q question) same(other question) bool {
	q.knownID, q.podRunning = other.knownID, other.podRunning
	return q == other
}

// pace is the time between two looks.
func (m *storeMemory) pace() time.Duration {
	if f := m.finding; f == nil || f.err != nil || f.missing != "" || f.report.Loading {
		return lookSoon
	}
	return lookAgain
}

// startLook starts a look beside the reconcile, unless too many are under way.
func (r *WorldReconciler) startLook(m *storeMemory, world types.NamespacedName, q question) bool {
	r.looks.init()
	select {
	case r.looks.slots <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-r.looks.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), lookPatience)
		defer cancel()
		finding := r.look(ctx, q)
		m.mu.Lock()
		m.looking, m.finding, m.at = false, &finding, r.Now()
		m.mu.Unlock()
		select {
		case r.looks.found <- event.GenericEvent{Object: &v1alpha1.World{ObjectMeta: objectMeta(world)}}:
		default:
		}
	}()
	return true
}

// look asks a store what it is, and gives it the World's id if it has none and may have one.
func (r *WorldReconciler) look(ctx context.Context, q question) storeFinding {
	access := r.Stores.withDefaults()
	f := storeFinding{}
	var c connect.Config
	if c, f.keys, f.missing, f.err = r.storeConfig(ctx, q); f.err != nil || f.missing != "" {
		return f
	}
	if f.report, f.err = access.Inspect(ctx, c); f.err != nil {
		return f
	}
	if id := q.idToWrite(f.report); id != "" {
		f.report.StoreID, f.err = access.Identify(ctx, c, id)
	}
	return f
}

// idToWrite is the id that a store should be given, "" if none. A store that should have one and has none lost everything, or is
// another one: it is given none, but the one for development, which loses everything as a matter of course.
func (q question) idToWrite(r connect.Report) string {
	switch {
	case r.Loading || !r.Primary() || r.StoreID != "" || q.terrain == "":
		return ""
	case q.knownID == "":
		return newStoreID(q.namespace, q.world, q.terrain)
	case r.Development():
		return q.knownID
	}
	return ""
}

// storeConfig reads the Secrets that a store is reached with. missing says which of them, or of their keys, is not there.
func (r *WorldReconciler) storeConfig(ctx context.Context, q question) (c connect.Config, keys []string, missing string, err error) {
	c = connect.Config{URL: q.url, Timeout: lookPatience}
	if q.credentials != "" {
		data, missing, err := r.secretData(ctx, q.namespace, q.credentials, v1alpha1.PasswordKey)
		if err != nil || missing != "" {
			return c, nil, missing, err
		}
		for _, key := range []string{v1alpha1.UsernameKey, v1alpha1.PasswordKey, v1alpha1.SentinelUsernameKey, v1alpha1.SentinelPasswordKey} {
			if len(data[key]) > connect.MaxSecret {
				return c, nil, fmt.Sprintf("Key %q of Secret %s is larger than %d bytes: shorten it.", key, q.credentials, connect.MaxSecret), nil
			}
			if len(data[key]) > 0 {
				keys = append(keys, key)
			}
		}
		known := connect.Credentials{Username: text(data[v1alpha1.UsernameKey]), Password: text(data[v1alpha1.PasswordKey])}
		c.Credentials = func() (connect.Credentials, error) { return known, nil }
		c.Sentinel = connect.Credentials{Username: text(data[v1alpha1.SentinelUsernameKey]), Password: text(data[v1alpha1.SentinelPasswordKey])}
	}
	if q.ca != "" {
		data, missing, err := r.secretData(ctx, q.namespace, q.ca, v1alpha1.CAKey)
		if err != nil || missing != "" {
			return c, nil, missing, err
		}
		c.CA = data[v1alpha1.CAKey]
	}
	return c, keys, "", nil
}

// secretData reads a Secret that must have a key.
func (r *WorldReconciler) secretData(ctx context.Context, namespace, name, key string) (data map[string][]byte, missing string, err error) {
	secret := &corev1.Secret{}
	err = r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Sprintf("Secret %s does not exist. Create it in namespace %s, with the key %q.", name, namespace, key), nil
	case err != nil:
		return nil, "", fmt.Errorf("reading secret %s: %w", name, err)
	case len(secret.Data[key]) == 0:
		return nil, fmt.Sprintf("Secret %s has no key %q. Add it.", name, key), nil
	}
	return secret.Data, "", nil
}
