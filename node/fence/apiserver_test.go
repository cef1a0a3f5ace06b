package fence

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/hack/envtest"
)

// realServer is a namespace on a real API server.
type realServer struct {
	cfg       *rest.Config
	namespace string
	admin     kubernetes.Interface
}

func realAPI(t *testing.T) *realServer {
	t.Helper()
	cfg := envtest.Start(t)
	return &realServer{cfg: cfg, namespace: envtest.Namespace(t, cfg), admin: kubernetes.NewForConfigOrDie(cfg)}
}

func (r *realServer) create(t *testing.T, lease *coordinationv1.Lease) {
	t.Helper()
	if _, err := r.admin.CoordinationV1().Leases(r.namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// complete makes what is missing in a World of sessions 0 to last and of 2 x 1 regions, the second ordered for node 0.
func (r *realServer) complete(t *testing.T, last int) {
	t.Helper()
	missing := []*coordinationv1.Lease{regionLease(1, 0, "", 1, zone0)}
	for ordinal := range last + 1 {
		missing = append(missing, sessionLease(ordinal))
	}
	for _, lease := range missing {
		if _, err := r.admin.CoordinationV1().Leases(r.namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

func (r *realServer) edit(t *testing.T, name string, change func(*coordinationv1.Lease)) {
	t.Helper()
	eventually(t, "edit of "+name, func() bool {
		lease, err := r.admin.CoordinationV1().Leases(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		change(lease)
		_, err = r.admin.CoordinationV1().Leases(r.namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
		return err == nil
	})
}

func (r *realServer) clients(t *testing.T, cfg *rest.Config) Clients {
	t.Helper()
	c, err := NewClients(cfg, r.namespace)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// quick is a Config with a short lease on the real clock.
func quick(ordinal int, uid string) Config {
	cfg := testConfig(ordinal, uid, BootClock{})
	cfg.LeaseDuration, cfg.RenewDeadline, cfg.RenewPeriod = 6*time.Second, 4*time.Second, time.Second
	return cfg
}

// session acquires and runs a session until the test ends.
func (r *realServer) session(t *testing.T, clients Clients, cfg Config) (*Session, *atomic.Bool) {
	t.Helper()
	gone := new(atomic.Bool)
	cfg.Lost = func(error) { gone.Store(true) }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Acquire(ctx, clients, cfg)
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(running); s.Stopped() }()
	t.Cleanup(func() { stop(); <-ended })
	return s, gone
}

// follow runs the regions of a session and returns its latest table.
func (r *realServer) follow(t *testing.T, clients Clients, s *Session) (*Regions, func() Table) {
	t.Helper()
	var mu sync.Mutex
	var last Table
	g, err := NewRegions(clients, s, RegionsConfig{Columns: 2, Rows: 1, OnTable: func(table Table) { mu.Lock(); last = table; mu.Unlock() }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); g.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return g, func() Table { mu.Lock(); defer mu.Unlock(); return last }
}

// eventually polls until ok, for at most 30 s.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-poll.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func owned(table func() Table, region int, session string, epoch uint64) func() bool {
	return func() bool {
		rows := table().Regions
		return len(rows) > region && rows[region].Session == session && rows[region].Epoch == epoch
	}
}

func TestRealLivesOfOneNode(t *testing.T) {
	r := realAPI(t)
	r.create(t, sessionLease(1))
	r.create(t, regionLease(0, 0, "", 3, zone1))
	r.complete(t, 1)
	clients := r.clients(t, r.cfg)
	first, firstGone := r.session(t, clients, quick(1, "a"))
	_, table := r.follow(t, clients, first)
	eventually(t, "take", owned(table, 0, "genesis-zone-1#1", 4))

	second, secondGone := r.session(t, clients, quick(1, "a")) // the container restarted
	if second.Incarnation() != 2 {
		t.Errorf("incarnation %d", second.Incarnation())
	}
	eventually(t, "loss of the first life", firstGone.Load)
	_, table = r.follow(t, clients, second)
	eventually(t, "inheritance", owned(table, 0, "genesis-zone-1#2", 5))

	r.edit(t, zone1, setHolder("")) // the operator revokes
	eventually(t, "loss of the second life", secondGone.Load)
	if !second.Deadline().Passed(BootClock{}.Boottime()) {
		t.Error("a revoked session may act")
	}

	r.edit(t, zone1, func(l *coordinationv1.Lease) { held(l, "genesis-zone-1_old", 3) }) // another pod, silent since
	began := time.Now()
	third, _ := r.session(t, clients, quick(1, "b"))
	if waited := time.Since(began); waited < 6*time.Second || third.Incarnation() != 4 {
		t.Errorf("incarnation %d after %s, want 4 after 6 s", third.Incarnation(), waited)
	}
}

func TestRealRaceAndOrders(t *testing.T) {
	r := realAPI(t)
	r.create(t, sessionLease(1))
	r.create(t, sessionLease(2))
	r.create(t, regionLease(0, 0, "", 3, zone0))
	r.complete(t, 2)
	clients1, clients2 := r.clients(t, r.cfg), r.clients(t, r.cfg)
	one, _ := r.session(t, clients1, quick(1, "a"))
	two, _ := r.session(t, clients2, quick(2, "a"))
	g1, table1 := r.follow(t, clients1, one)
	g2, table2 := r.follow(t, clients2, two)
	eventually(t, "tables", func() bool { return len(table1().Sessions) == 2 && len(table2().Sessions) == 2 })

	// Both write the same free version at once, as two nodes do whose orders crossed.
	free := g1.ledger.region(0).lease
	var wins atomic.Int32
	var racing sync.WaitGroup
	for _, g := range []*Regions{g1, g2} {
		racing.Go(func() {
			if g.write(t.Context(), rewritten(free, g.session.Session(), 4)) == nil {
				wins.Add(1)
			}
		})
	}
	racing.Wait()
	if wins.Load() != 1 {
		t.Fatalf("%d nodes took one region", wins.Load())
	}
	eventually(t, "same view", func() bool { return table1().Regions[0].Session != "" && table1().Regions[0] == table2().Regions[0] })
	winner := g1
	if table1().Regions[0].Session == "genesis-zone-2#1" {
		winner = g2
	}
	if epoch, err := winner.RaiseEpoch(t.Context(), 0, 50); err != nil || epoch != 50 {
		t.Errorf("raised to %d, %v", epoch, err)
	}
	lease := v1alpha1.RegionLeaseName(testWorld, 0, 0)
	if err := winner.Release(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	heir, name, table := "genesis-zone-2#1", "genesis-zone-2", table1
	if winner == g2 {
		heir, name = "genesis-zone-1#1", zone1
	}
	r.edit(t, lease, setTarget(name))
	eventually(t, "take by the heir", owned(table, 0, heir, 51))

	if err := r.admin.CoordinationV1().Leases(r.namespace).Delete(t.Context(), lease, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "loss of a deleted lease", func() bool { return table().Regions[0] == (Row{}) })
	r.create(t, regionLease(0, 0, "", 1000, name))
	eventually(t, "take of the new lease", owned(table, 0, heir, 1001))
}

// What rewritten is careful about: a PUT that changes nothing leaves the version as it is, so it is seen by nobody and beats no other.
func TestRealWriteThatSaysTheSameIsNone(t *testing.T) {
	r := realAPI(t)
	ahead := metav1.NewMicroTime(time.Now().Add(time.Hour).Truncate(time.Microsecond))
	lease := held(sessionLease(1), "genesis-zone-1_a", 3)
	lease.Spec.RenewTime = &ahead
	r.create(t, lease)
	put := func(next func(*coordinationv1.Lease) *coordinationv1.Lease) (changed bool) {
		leases := r.admin.CoordinationV1().Leases(r.namespace)
		was, err := leases.Get(t.Context(), zone1, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		is, err := leases.Update(t.Context(), next(was), metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return is.ResourceVersion != was.ResourceVersion
	}
	if put(func(was *coordinationv1.Lease) *coordinationv1.Lease { return was.DeepCopy() }) {
		t.Error("the API server makes a version of a write that says the same")
	}
	for range 3 {
		if !put(func(was *coordinationv1.Lease) *coordinationv1.Lease {
			return rewritten(was, holderOf(was), transitionsOf(was))
		}) {
			t.Error("a renewal by a clock that has gone back is no change")
		}
	}
}

func TestRealOutageFreezesAndThaws(t *testing.T) {
	r := realAPI(t)
	r.create(t, sessionLease(1))
	r.create(t, regionLease(0, 0, "", 3, zone1))
	r.complete(t, 1)
	proxied, cut := proxy(t, r.cfg)
	clients := r.clients(t, proxied)
	s, gone := r.session(t, clients, quick(1, "a"))
	_, table := r.follow(t, clients, s)
	eventually(t, "take", owned(table, 0, "genesis-zone-1#1", 4))
	cut(true)
	eventually(t, "freeze", func() bool { return s.Deadline().Passed(BootClock{}.Boottime()) })
	r.edit(t, v1alpha1.RegionLeaseName(testWorld, 0, 0), setTarget("genesis-zone-2"))
	cut(false)
	eventually(t, "thaw", func() bool { return !s.Deadline().Passed(BootClock{}.Boottime()) })
	eventually(t, "fresh table", func() bool { return table().Regions[0].Target == "genesis-zone-2" })
	if gone.Load() || s.Incarnation() != 1 || !owned(table, 0, "genesis-zone-1#1", 4)() {
		t.Errorf("lost %v, incarnation %d, table %+v", gone.Load(), s.Incarnation(), table().Regions)
	}
}

// proxy puts a wire between clients and the API server that can be cut: what is connected hangs up, what dials is refused.
func proxy(t *testing.T, cfg *rest.Config) (*rest.Config, func(bool)) {
	t.Helper()
	host := cfg.Host
	if u, err := url.Parse(cfg.Host); err == nil && u.Host != "" {
		host = u.Host
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	broken := false
	open := map[net.Conn]bool{}
	connect := func(client net.Conn) {
		server, err := net.Dial("tcp", host)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || broken {
			client.Close()
			if err == nil {
				server.Close()
			}
			return
		}
		open[client], open[server] = true, true
		for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() { _, _ = io.Copy(pair[0], pair[1]); client.Close(); server.Close() }()
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			connect(client)
		}
	}()
	cut := func(now bool) {
		mu.Lock()
		defer mu.Unlock()
		broken = now
		for c := range open {
			c.Close()
			delete(open, c)
		}
	}
	t.Cleanup(func() { listener.Close(); cut(true) })
	proxied := rest.CopyConfig(cfg)
	proxied.Host = "https://" + listener.Addr().String()
	return proxied, cut
}

func TestRealTokenMustBeBoundToThePod(t *testing.T) {
	r := realAPI(t)
	account, err := r.admin.CoreV1().ServiceAccounts(r.namespace).Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ServiceAccountName(testWorld)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod, err := r.admin.CoreV1().Pods(r.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: zone1},
		Spec:       corev1.PodSpec{ServiceAccountName: account.Name, Containers: []corev1.Container{{Name: "zone-node", Image: "zone-node"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(bound *authenticationv1.BoundObjectReference) error {
		token, err := r.admin.CoreV1().ServiceAccounts(r.namespace).CreateToken(t.Context(), account.Name,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := rest.AnonymousClientConfig(r.cfg)
		cfg.BearerToken = token.Status.Token
		return CheckToken(t.Context(), r.clients(t, cfg).Reviews, pod.Name, string(pod.UID))
	}
	if err := check(&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}); err != nil {
		t.Errorf("a bound token is refused: %v", err)
	}
	if err := check(nil); !errors.Is(err, ErrUnboundToken) {
		t.Errorf("a token of no pod: %v", err)
	}
}
