package fence

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

const (
	zone0 = "genesis-zone-0"
	zone1 = "genesis-zone-1"
)

// running is a session whose Run runs.
type running struct {
	*Session
	clock *simClock
	lost  atomic.Int32 // how often Config.Lost was called
	err   chan error   // what Run returned
	stop  context.CancelFunc
}

// start acquires and runs a session of node 1; it ends with the test.
func start(t *testing.T, c *conn, change func(*Config)) *running {
	t.Helper()
	r := &running{clock: newSimClock(), err: make(chan error, 1)}
	cfg := testConfig(1, "1", r.clock)
	cfg.Lost = func(error) { r.lost.Add(1) }
	if change != nil {
		change(&cfg)
	}
	r.Session = mustAcquire(t, c, cfg)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	go func() { r.err <- r.Run(ctx) }()
	t.Cleanup(func() { r.stop(); r.Stopped() })
	return r
}

// passed reports whether the session is frozen now.
func (r *running) passed() bool { return r.Deadline().Passed(r.clock.Boottime()) }

// after lets virtual time pass and everything that is due then happen.
func after(d time.Duration) { time.Sleep(d); synctest.Wait() }

func TestAcquireWaitsForItsLeaseAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, log := newModelAPI(), &bytes.Buffer{}
		cfg := testConfig(1, "1", newSimClock())
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		go func() { time.Sleep(25 * time.Second); api.create(sessionLease(1)) }()
		s := mustAcquire(t, dial(api), cfg)
		if n := strings.Count(log.String(), "waiting for Lease genesis-zone-1, created by the operator"); n != 3 {
			t.Errorf("said %d times in 25 s what it waits for, want at 0, 10 and 20 s:\n%s", n, log)
		}
		if s.Session() != "genesis-zone-1#1" || s.Incarnation() != 1 {
			t.Errorf("session %s, incarnation %d", s.Session(), s.Incarnation())
		}
	})
}

func TestAcquirePublishesTheIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(held(sessionLease(1), "", 6))
		clock := newSimClock()
		s := mustAcquire(t, dial(api), testConfig(1, "1", clock))
		lease, _ := api.get(zone1)
		if holderOf(lease) != "genesis-zone-1_1" || transitionsOf(lease) != 7 || durationOf(lease) != 15*time.Second {
			t.Errorf("lease %+v", lease.Spec)
		}
		if lease.Annotations[v1alpha1.AnnotationAddress] != "10.0.0.1:7777" || lease.Annotations[v1alpha1.AnnotationKeyHash] != "abc" ||
			lease.Annotations[v1alpha1.AnnotationGateway] != "10.0.0.1:8080" {
			t.Errorf("annotations %v", lease.Annotations)
		}
		if got := s.LeaseMargin(clock.Boottime()); got != 10*time.Second {
			t.Errorf("margin %s right after an immediate answer", got)
		}
		api.noRuleBroken(t)
	})
}

func TestRestartedContainerTakesOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(held(sessionLease(1), "genesis-zone-1_1", 6))
		began := time.Now()
		s := mustAcquire(t, dial(api), testConfig(1, "1", newSimClock()))
		if s.Incarnation() != 7 || time.Since(began) != 0 {
			t.Errorf("incarnation %d after %s", s.Incarnation(), time.Since(began))
		}
	})
}

func TestAnotherPodWaitsTheFullDurationOnItsOwnClock(t *testing.T) {
	for _, rate := range []float64{0.9, 1, 1.1} {
		synctest.Test(t, func(t *testing.T) {
			api := newModelAPI()
			api.create(held(sessionLease(1), "genesis-zone-1_0", 6))
			go func() { // the old pod renews a last time
				time.Sleep(8 * time.Second)
				api.edit(zone1, func(*coordinationv1.Lease) {})
			}()
			clock := newSimClock()
			clock.rate = rate
			s := mustAcquire(t, dial(api), testConfig(1, "1", clock))
			waited := clock.Boottime() - clock.offset - time.Duration(8*rate*float64(time.Second))
			if waited < 15*time.Second || waited > 18*time.Second || s.Incarnation() != 7 {
				t.Errorf("rate %v: took over %s after the last renewal, as incarnation %d", rate, waited, s.Incarnation())
			}
		})
	}
}

func TestOutageStartsTheObservationAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(held(sessionLease(1), "genesis-zone-1_0", 6))
		c, began := dial(api), time.Now()
		c.will(func(string, string) plan {
			if since := time.Since(began); since > 10*time.Second && since < 12*time.Second {
				return plan{fail: apierrors.NewServiceUnavailable("down")}
			}
			return plan{}
		})
		mustAcquire(t, c, testConfig(1, "1", newSimClock()))
		if waited := time.Since(began); waited < 27*time.Second || waited > 30*time.Second {
			t.Errorf("took over after %s, want 15 s after the end of the outage at 12 s", waited)
		}
	})
}

func TestTakeWithAnUnknownOutcomeNeverReusesAnIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		c, muted := dial(api), false
		c.will(func(verb, _ string) plan {
			mute := verb == "put" && !muted
			muted = muted || mute
			return plan{mute: mute}
		})
		s := mustAcquire(t, c, testConfig(1, "1", newSimClock()))
		if s.Incarnation() != 2 {
			t.Errorf("incarnation %d, but 1 was taken by a write whose answer was lost", s.Incarnation())
		}
		api.noRuleBroken(t)
	})
}

func TestEveryLifeHasAHigherNumberWhateverEndedTheOneBefore(t *testing.T) {
	ends := map[string]func(*testing.T, *modelAPI, *running){
		"a crash":   func(*testing.T, *modelAPI, *running) {},
		"a release": func(t *testing.T, _ *modelAPI, r *running) { _ = r.Release(t.Context()) },
		"a revocation": func(_ *testing.T, a *modelAPI, _ *running) {
			a.edit(zone1, setHolder(""))
		},
		"a renewal that lands when it is over": func(_ *testing.T, a *modelAPI, _ *running) {
			last, _ := a.get(zone1)
			time.AfterFunc(3*time.Second, func() { _, _ = a.put(last) })
		},
		"the loss of the lease": func(_ *testing.T, a *modelAPI, _ *running) {
			last, _ := a.get(zone1)
			a.remove(zone1)
			a.create(standIn(1, transitionsOf(last)+1000)) // above highestEpoch, see controllers
		},
	}
	for name, end := range ends {
		synctest.Test(t, func(t *testing.T) {
			api := newModelAPI()
			api.create(sessionLease(1))
			var last int32
			for life := range 5 {
				if life%2 == 1 {
					c := dial(api) // a take that is not answered counts a life, too
					c.will(func(verb, _ string) plan { return plan{mute: verb == "put"} })
					ctx, stop := context.WithTimeout(t.Context(), 40*time.Second)
					_, _ = Acquire(ctx, Clients{Session: c}, testConfig(1, "1", newSimClock()))
					stop()
				}
				r := start(t, dial(api), nil)
				if r.Incarnation() <= last {
					t.Errorf("%s: life %d after %d", name, r.Incarnation(), last)
				}
				if answered := life > 0 && life%2 == 0; answered && r.Incarnation() != last+1 && name != "the loss of the lease" {
					t.Errorf("%s: life %d after %d: numbers are skipped, and a shard of ids comes again after 16", name, r.Incarnation(), last)
				}
				last = r.Incarnation()
				after(time.Second)
				end(t, api, r)
				r.stop()
				after(5 * time.Second)
			}
			api.noRuleBroken(t)
		})
	}
}

func TestDeadlineIsCountedFromBeforeTheRenewalWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		c := dial(api)
		r := start(t, c, nil)
		c.will(func(string, string) plan { return plan{before: time.Second, after: 500 * time.Millisecond} })
		sent := r.clock.Boottime() + 2*time.Second
		after(3400 * time.Millisecond)
		if got := r.Deadline().At(); got != sent-2*time.Second+10*time.Second {
			t.Errorf("extended before the answer: deadline %s after the renewal was sent", got-sent)
		}
		after(200 * time.Millisecond)
		if got := r.Deadline().At(); got != sent+10*time.Second {
			t.Errorf("deadline %s after the renewal was sent, want 10s", got-sent)
		}
	})
}

func TestLostAnswerIsAdoptedAndRenewedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		c := dial(api)
		r := start(t, c, nil)
		puts := 0
		c.will(func(verb, _ string) plan {
			if verb == "put" {
				puts++
			}
			return plan{mute: verb == "put" && puts == 1, before: 10 * time.Millisecond}
		})
		after(4050 * time.Millisecond) // sent at 2 s, given up at 4 s
		at := r.Deadline().At()
		after(200 * time.Millisecond) // conflict, read, written again
		if got := r.Deadline().At(); got <= at || got > r.clock.Boottime()+10*time.Second {
			t.Errorf("deadline %s, was %s: not renewed at once after the conflict", got, at)
		}
		if r.lost.Load() != 0 || r.passed() {
			t.Error("a lost answer cost the session")
		}
	})
}

func TestReadingExtendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		c := dial(api)
		r := start(t, c, nil)
		at := r.Deadline().At()
		c.will(func(verb, _ string) plan {
			if verb == "put" {
				return plan{fail: conflictOn(zone1)} // however often it is read, no write succeeds
			}
			return plan{}
		})
		after(time.Minute)
		if r.Deadline().At() != at || !r.passed() {
			t.Errorf("deadline moved from %s to %s by reads", at, r.Deadline().At())
		}
		if c.puts > 150 {
			t.Errorf("%d writes in a minute of conflicts", c.puts)
		}
	})
}

func TestUnknownFreezesAndTheSameSessionThawsInPlace(t *testing.T) {
	for name, broken := range map[string]plan{
		"unauthorized": {fail: apierrors.NewUnauthorized("token")},
		"forbidden":    {fail: apierrors.NewForbidden(leaseResource, zone1, errors.New("policy"))},
		"not found":    {fail: apierrors.NewNotFound(leaseResource, zone1)},
		"internal":     {fail: apierrors.NewInternalError(errors.New("etcd"))},
		"refused":      {fail: errors.New("connection refused")},
		"time-outs":    {before: time.Hour},
		"lost answers": {mute: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := newModelAPI()
			api.create(sessionLease(1))
			c, registry := dial(api), prometheus.NewRegistry()
			r := start(t, c, func(cfg *Config) { cfg.Metrics = NewMetrics(registry) })
			at := r.Deadline().At()
			c.will(func(string, string) plan { return broken })
			after(9900 * time.Millisecond)
			if r.passed() || r.Deadline().At() != at {
				t.Errorf("%s: shortened the deadline", name)
			}
			after(200 * time.Millisecond)
			if !r.passed() || r.Deadline().At() != at {
				t.Errorf("%s: extended the deadline", name)
			}
			after(50 * time.Second)
			if !r.passed() || r.lost.Load() != 0 || gauge(t, registry, "spatialcells_lease_margin_seconds") != 0 {
				t.Errorf("%s: passed %v, lost %d", name, r.passed(), r.lost.Load())
			}
			c.will(func(string, string) plan { return plan{} })
			after(3 * time.Second)
			if r.passed() || r.Session.Session() != "genesis-zone-1#1" {
				t.Errorf("%s: not thawed in place", name)
			}
			if n := gauge(t, registry, "spatialcells_self_fences_total"); n != 1 {
				t.Errorf("%s: %v self-fences counted, want 1", name, n)
			}
			api.noRuleBroken(t)
		})
	}
}

// gauge reads the only value of a metric.
func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && f.GetType() == dto.MetricType_GAUGE {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestSessionIsLostForGoodToAnybodyElse(t *testing.T) {
	for name, happens := range map[string]func(*modelAPI){
		"revoked by the operator": func(a *modelAPI) { a.edit(zone1, setHolder("")) },
		"taken by another pod":    func(a *modelAPI) { a.edit(zone1, func(l *coordinationv1.Lease) { held(l, "genesis-zone-1_2", 2) }) },
		"taken by a later container of this pod": func(a *modelAPI) {
			a.edit(zone1, func(l *coordinationv1.Lease) { held(l, "genesis-zone-1_1", 2) })
		},
		"deleted and created anew": func(a *modelAPI) { a.remove(zone1); a.create(held(sessionLease(1), "genesis-zone-1_1", 1)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			api := newModelAPI()
			api.create(sessionLease(1))
			c := dial(api)
			r := start(t, c, nil)
			happens(api)
			after(2100 * time.Millisecond)
			if !r.passed() || r.lost.Load() != 1 {
				t.Fatalf("%s: passed %v, lost %d times", name, r.passed(), r.lost.Load())
			}
			if err := <-r.err; !errors.Is(err, ErrLost) {
				t.Errorf("%s: Run returned %v", name, err)
			}
			r.Stopped()
			puts := c.puts
			after(time.Minute)
			if c.puts != puts || !r.passed() {
				t.Errorf("%s: it went on renewing", name)
			}
		})
	}
}

func TestDeletedLeaseIsUnknownUntilThereIsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		r := start(t, dial(api), nil)
		api.remove(zone1)
		after(time.Minute)
		if r.lost.Load() != 0 || !r.passed() {
			t.Errorf("lost %d, frozen %v: a missing lease freezes and is no loss", r.lost.Load(), r.passed())
		}
		if _, err := api.get(zone1); !apierrors.IsNotFound(err) {
			t.Error("the node created its lease anew")
		}
		api.create(sessionLease(1))
		after(3 * time.Second)
		if r.lost.Load() != 1 {
			t.Error("another lease object is not this session")
		}
	})
}

func TestWatchdogEndsAProcessThatDoesNotStop(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			api := newModelAPI()
			api.create(sessionLease(1))
			var code atomic.Int32
			r := start(t, dial(api), func(c *Config) { c.Exit = func(n int) { code.Store(int32(n)) } })
			api.edit(zone1, setHolder(""))
			after(2100 * time.Millisecond) // lost at 2 s
			r.stop()                       // the end of ctx is no excuse
			after(4 * time.Second)
			if code.Load() != 0 {
				t.Error("ended before its grace")
			}
			if stops {
				r.Stopped()
			}
			after(2 * time.Second)
			if ended := code.Load() == exitNotStopped; ended == stops {
				t.Errorf("stopped %v, exit code %d", stops, code.Load())
			}
		})
	}
}

func TestFrozenProcessIsNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		c := dial(api)
		r := start(t, c, nil) // Exit panics
		c.will(func(string, string) plan { return plan{fail: errors.New("connection refused")} })
		after(10 * time.Minute)
		if !r.passed() {
			t.Error("not frozen")
		}
	})
}

func TestNodeWithoutABoundTokenRefusesToStart(t *testing.T) {
	review := func(extra map[string]authenticationv1.ExtraValue) Clients {
		client := fake.NewClientset()
		client.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{
				UserInfo: authenticationv1.UserInfo{Username: "somebody", Extra: extra},
			}}, nil
		})
		return Clients{Reviews: client.AuthenticationV1().SelfSubjectReviews()}
	}
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		cfg := testConfig(1, "1", newSimClock())
		cfg.SkipTokenCheck = false
		clients := review(nil)
		clients.Session = dial(api)
		if _, err := Acquire(t.Context(), clients, cfg); !errors.Is(err, ErrUnboundToken) {
			t.Errorf("error %v", err)
		}
		if lease, _ := api.get(zone1); transitionsOf(lease) != 0 {
			t.Error("it took the lease")
		}
		clients = review(map[string]authenticationv1.ExtraValue{extraPodName: {zone1}, extraPodUID: {"1"}})
		clients.Session = dial(api)
		if _, err := Acquire(t.Context(), clients, cfg); err != nil {
			t.Error(err)
		}
	})
}

// The wall clock of the machine went back, or the pod came up on another one: the next life knows until when the one before acted.
func TestANextLifeBeginsAboveTheTimeOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		lease := held(sessionLease(1), "genesis-zone-1_1", 4)
		renewed := metav1.NewMicroTime(time.Now().Add(time.Hour))
		lease.Spec.RenewTime = &renewed
		api.create(lease)
		r := start(t, dial(api), nil)
		if first := renewed.Add(15 * time.Second); r.NotBefore().Before(first) {
			t.Errorf("begins at %v, the life before may have acted until %v", r.NotBefore(), first)
		}
		after(10 * time.Second)
		got, err := api.get(zone1)
		if err != nil || got.Spec.RenewTime.Before(&renewed) {
			t.Errorf("renewed at %v, before %v: %v", got.Spec.RenewTime, renewed, err)
		}
		r.stop()
	})
}

// The operator revokes a session whose Lease it sees unchanged, so each renewal must be a change, also when the wall clock went back.
func TestEachRenewalChangesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newModelAPI()
		api.create(sessionLease(1))
		r := start(t, dial(api), nil)
		api.edit(zone1, func(lease *coordinationv1.Lease) {
			ahead := metav1.NewMicroTime(time.Now().Add(time.Hour))
			lease.Spec.RenewTime = &ahead
		})
		after(5 * time.Second)
		for range 5 {
			was, err := api.get(zone1)
			if err != nil {
				t.Fatal(err)
			}
			after(3 * time.Second)
			if is, err := api.get(zone1); err != nil || is.ResourceVersion == was.ResourceVersion {
				t.Fatalf("nothing is renewed in 3 s: %v, %v", is.Spec, err)
			}
		}
		r.stop()
	})
}
