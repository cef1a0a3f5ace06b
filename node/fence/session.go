package fence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// ErrLost: another process holds the session, or holds a later incarnation of it. This process must end.
var ErrLost = errors.New("session lost")

// noteInterval is the least time between two log lines that say the same is still so.
const noteInterval = 10 * time.Second

// maxRounds bounds how often a renewal asks again at once before it waits like after any other failure.
const maxRounds = 4

// Session is one life of this node: an incarnation of its session Lease, and its deadline.
type Session struct {
	cfg      Config
	leases   Leases
	log      *slog.Logger
	deadline Deadline
	watchdog *watchdog
	tenure   tenure
	first    *coordinationv1.Lease // as it was acquired
	before   time.Time             // no life before this one acted later, by its own wall clock

	// fenced is true from when somebody noticed that the deadline passed until the next renewal. It is for logs and metrics
	// only; decisions compare the deadline.
	fenced atomic.Bool

	// renewing holds a token while Run renews, or Release releases.
	renewing chan struct{}
	renewal  renewal
	took     atomic.Int64 // the last renewal, in nanoseconds
	nextAt   time.Duration
	leave    chan struct{} // closed by Release: Run returns
	leaving  sync.Once
}

// Acquire takes the session Lease of this node and returns the new incarnation. It first makes sure that the token of this
// process is bound to its pod, and then waits as long as it takes, until ctx ends, and says in the log what it waits for.
// Errors: ErrUnboundToken, an invalid Config, or that of ctx. Call Run at once: the deadline runs already.
func Acquire(ctx context.Context, clients Clients, cfg Config) (*Session, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuring the session: %w", err)
	}
	s := &Session{
		cfg: cfg, leases: clients.Session, log: cfg.Logger,
		watchdog: newWatchdog(cfg.Clock, cfg.StopGrace, cfg.Exit),
		renewing: make(chan struct{}, 1), leave: make(chan struct{}),
	}
	if !cfg.SkipTokenCheck {
		if err := s.checkToken(ctx, clients); err != nil {
			return nil, err
		}
	}
	if err := s.acquire(ctx); err != nil {
		return nil, fmt.Errorf("acquiring session %s: %w", cfg.PodName, err)
	}
	cfg.Metrics.observeMargin(func() time.Duration { return s.LeaseMargin(cfg.Clock.Boottime()) })
	s.log.Info("session acquired", "session", s.Session(), "holder", s.tenure.holder)
	return s, nil
}

// Session returns the name of this session, "<world>-zone-<ordinal>#<incarnation>": the holder of its region Leases.
func (s *Session) Session() string {
	return v1alpha1.SessionID(s.cfg.World, s.cfg.Ordinal, s.tenure.incarnation)
}

// Incarnation returns which life of the node this is, from 1.
func (s *Session) Incarnation() int32 { return s.tenure.incarnation }

// Deadline returns the deadline, to be compared at each commit point.
func (s *Session) Deadline() *Deadline { return &s.deadline }

// LeaseMargin returns the time left at the boot-time reading now, 0 when the node is frozen.
func (s *Session) LeaseMargin(now time.Duration) time.Duration { return max(s.deadline.At()-now, 0) }

// NotBefore is the latest wall time at which a life of the node before this one can have acted, by the clocks that wrote its Lease: its
// last renewal, and the lease's duration. Zero if there was none.
func (s *Session) NotBefore() time.Time { return s.before }

// LastRenewal is how long the last attempt to renew took, answered or not; 0 before the first.
func (s *Session) LastRenewal() time.Duration { return time.Duration(s.took.Load()) }

// Stopped says that nothing acts for this session any more: after the loss of the session it keeps the watchdog from
// ending the process.
func (s *Session) Stopped() { s.watchdog.rest() }

// checkToken repeats CheckToken until it is answered.
func (s *Session) checkToken(ctx context.Context, clients Clients) error {
	note := noter{log: s.log}
	for {
		err := s.attempted(ctx, func(ctx context.Context) error {
			return CheckToken(ctx, clients.Reviews, s.cfg.PodName, s.cfg.PodUID)
		})
		if err == nil || errors.Is(err, ErrUnboundToken) {
			return err
		}
		note.say(s.cfg.Clock.Boottime(), "waiting for the API server to review the token of this process", "error", err)
		if err := pause(ctx, s.cfg.RenewPeriod/2); err != nil {
			return err
		}
	}
}

// acquire reads the Lease until it may be taken, and takes it.
func (s *Session) acquire(ctx context.Context) error {
	a := acquisition{world: s.cfg.World, holder: s.cfg.holder(), duration: s.cfg.LeaseDuration, gap: 3 * s.cfg.RenewPeriod}
	note := noter{log: s.log}
	for {
		taken, waiting, detail := s.tryAcquire(ctx, &a)
		if taken {
			return nil
		}
		note.say(s.cfg.Clock.Boottime(), waiting, "lease", s.cfg.PodName, "detail", detail)
		if err := pause(ctx, s.cfg.RenewPeriod/2); err != nil {
			return err
		}
	}
}

// tryAcquire reads the Lease once and takes it if it may. If not, it says what is being waited for, and more closely why.
func (s *Session) tryAcquire(ctx context.Context, a *acquisition) (taken bool, waiting, detail string) {
	sent := s.cfg.Clock.Boottime()
	lease, err := s.get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		a.seen.forget()
		return false, "waiting for Lease " + s.cfg.PodName + ", created by the operator", "it does not exist"
	case err != nil:
		a.seen.forget()
		return false, "waiting for the API server to show the session lease", err.Error()
	}
	step := a.decide(sent, s.cfg.Clock.Boottime(), lease)
	if !step.take {
		return false, "waiting until the session lease may be taken", step.reason
	}
	start := s.cfg.Clock.Boottime()
	got, err := s.put(ctx, s.claimed(lease))
	if err != nil {
		// Whatever became of it, the next read decides; if it was applied, a later incarnation follows.
		return false, "taking the session lease failed", fmt.Sprintf("%s, but outcome %s: %v", step.reason, classify(err), err)
	}
	s.tenure = tenure{uid: got.UID, holder: a.holder, incarnation: transitionsOf(got)}
	if lease.Spec.RenewTime != nil {
		s.before = lease.Spec.RenewTime.Add(max(s.cfg.LeaseDuration, durationOf(lease)))
	}
	s.first, s.renewal = got, renewal{tenure: s.tenure, lease: got}
	s.nextAt = start + s.cfg.RenewPeriod
	s.deadline.extend(start + s.cfg.RenewDeadline)
	return true, "", step.reason
}

// claimed returns the Lease as the next incarnation of this node, with where its peers and players find it.
func (s *Session) claimed(lease *coordinationv1.Lease) *coordinationv1.Lease {
	next := rewritten(lease, s.cfg.holder(), transitionsOf(lease)+1)
	seconds := int32(s.cfg.LeaseDuration / time.Second)
	next.Spec.LeaseDurationSeconds = &seconds
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[v1alpha1.AnnotationAddress] = s.cfg.Address
	next.Annotations[v1alpha1.AnnotationKeyHash] = s.cfg.KeyHash
	next.Annotations[v1alpha1.AnnotationGateway] = s.cfg.Gateway
	return next
}

// Run renews the session until ctx ends or Release is called (nil), or until the session is lost (ErrLost, after
// Config.Lost was called).
func (s *Session) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go s.watchdog.run(ctx, s.noticeFence)
	go func() {
		select {
		case <-s.leave:
			stop()
		case <-ctx.Done():
		}
	}()
	s.renewing <- struct{}{}
	defer func() { <-s.renewing }()
	note := noter{log: s.log}
	for {
		if pause(ctx, s.nextAt-s.cfg.Clock.Boottime()) != nil {
			return nil
		}
		switch verdict, reason := s.renew(ctx); {
		case ctx.Err() != nil:
			return nil
		case verdict == lost:
			return s.lose(reason)
		case verdict != renewed:
			note.say(s.cfg.Clock.Boottime(), "session not renewed", "reason", reason, "margin", s.LeaseMargin(s.cfg.Clock.Boottime()))
		}
	}
}

// renew makes one attempt: a write, or as many reads and writes in a row as lost answers need. It sets nextAt.
func (s *Session) renew(ctx context.Context) (v verdict, reason string) {
	var start time.Duration
	for range maxRounds {
		asked := s.renewal.next()
		start = s.cfg.Clock.Boottime()
		var got *coordinationv1.Lease
		var err error
		if asked == read {
			got, err = s.get(ctx)
		} else {
			got, err = s.put(ctx, rewritten(s.renewal.lease, s.tenure.holder, s.tenure.incarnation))
			took := s.cfg.Clock.Boottime() - start
			s.took.Store(int64(took))
			s.cfg.Metrics.renewTook(took)
		}
		if v, reason = s.renewal.answered(asked, got, err); v != again {
			break
		}
	}
	if v == renewed {
		s.extend(start)
		return v, reason
	}
	s.nextAt = max(start+s.cfg.RenewPeriod/2, s.cfg.Clock.Boottime()+s.cfg.RenewPeriod/20)
	return v, reason
}

// extend moves the deadline for a renewal that was sent at start, which thaws a frozen node in place.
func (s *Session) extend(start time.Duration) {
	now := s.cfg.Clock.Boottime()
	s.noticeFence(now)
	s.nextAt = start + s.cfg.RenewPeriod
	s.deadline.extend(start + s.cfg.RenewDeadline)
	if !s.deadline.Passed(now) && s.fenced.CompareAndSwap(true, false) {
		s.log.Info("session renewed in time for nobody else to take it: the node thaws in place", "session", s.Session())
	}
}

// noticeFence reports, once, that the deadline passed; not when it was given up.
func (s *Session) noticeFence(now time.Duration) {
	select {
	case <-s.leave:
		return
	default:
	}
	if s.deadline.Passed(now) && s.fenced.CompareAndSwap(false, true) {
		s.cfg.Metrics.selfFenced()
		s.log.Warn("the deadline passed: the node is frozen until its session is renewed", "session", s.Session(), "deadline", s.deadline.At())
	}
}

// lose ends the session for good.
func (s *Session) lose(reason string) error {
	s.deadline.revoke()
	s.noticeFence(s.cfg.Clock.Boottime())
	s.watchdog.tell()
	err := fmt.Errorf("%w: %s: %s", ErrLost, s.Session(), reason)
	s.log.Error("the session is lost, this process must end", "session", s.Session(), "reason", reason)
	s.cfg.Lost(err)
	return err
}

// Release gives the session up, so that a successor need not wait. Call it after the simulation stopped and the regions
// were released: it revokes the deadline first. It ends Run, and returns nil once the API server shows that this process
// holds the session no longer, or the last error when ctx ends.
func (s *Session) Release(ctx context.Context) error {
	s.leaving.Do(func() { close(s.leave) })
	s.watchdog.rest()
	s.deadline.revoke()
	s.renewing <- struct{}{}
	defer func() { <-s.renewing }()
	var cause error
	for {
		held, err := s.tryRelease(ctx)
		if !held {
			return nil
		}
		if ctx.Err() == nil {
			cause = err
		}
		if pause(ctx, s.cfg.RenewPeriod/4) != nil {
			return fmt.Errorf("releasing session %s: %w", s.Session(), errors.Join(ctx.Err(), cause))
		}
	}
}

// tryRelease empties the Lease once if this process holds it. held is false only if a read or a write showed it.
func (s *Session) tryRelease(ctx context.Context) (held bool, err error) {
	lease, err := s.get(ctx)
	if err != nil {
		return !apierrors.IsNotFound(err), err
	}
	if !s.tenure.of(lease) {
		return false, nil
	}
	_, err = s.put(ctx, rewritten(lease, "", s.tenure.incarnation))
	return err != nil, err
}

// get reads the session Lease, within one period.
func (s *Session) get(ctx context.Context) (lease *coordinationv1.Lease, err error) {
	err = s.attempted(ctx, func(ctx context.Context) error {
		lease, err = s.leases.Get(ctx, s.cfg.PodName, metav1.GetOptions{})
		return err
	})
	return lease, err
}

// put writes the session Lease, within one period.
func (s *Session) put(ctx context.Context, lease *coordinationv1.Lease) (got *coordinationv1.Lease, err error) {
	err = s.attempted(ctx, func(ctx context.Context) error {
		got, err = update(ctx, s.leases, lease)
		return err
	})
	return got, err
}

// attempted runs one request that may take one period.
func (s *Session) attempted(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RenewPeriod)
	defer cancel()
	return do(ctx)
}

// update is the only write of this package: a PUT of an object that came from the API. One without uid or resourceVersion
// would re-create a deleted Lease or overwrite whoever holds it.
func update(ctx context.Context, leases Leases, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if lease.UID == "" || lease.ResourceVersion == "" {
		return nil, fmt.Errorf("writing lease %s: it has no uid and resourceVersion, so it did not come from the API", lease.Name)
	}
	return leases.Update(ctx, lease, metav1.UpdateOptions{})
}

// pause waits for d, or until ctx ends (its error).
func pause(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// noter logs a message at once when it changes, and while it stays the same once per noteInterval.
type noter struct {
	log  *slog.Logger
	said string
	at   time.Duration
}

func (n *noter) say(now time.Duration, message string, args ...any) {
	if message == n.said && now-n.at < noteInterval {
		return
	}
	n.said, n.at = message, now
	n.log.Info(message, args...)
}
