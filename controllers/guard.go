package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers/policy"
)

const (
	// guardPeriod is the time between two looks at the installed policies, and between two proofs.
	guardPeriod = 5 * time.Minute
	// guardRetry is the time after a failure to install, and the first of the growing times after a failed proof.
	guardRetry = 2 * time.Second
)

// Guard installs the admission policies that make the API server refuse wrong writes on Leases. Where it may not, the
// Worlds serve on the other two locks and say so.
type Guard struct {
	client.Client
	// Live reads past the cache.
	Live client.Reader
	// Identify tells the operator's own user name: the policies let nobody else act as the operator.
	Identify func(context.Context) (string, error)
	// Render makes the policies for that name.
	Render func(operatorUser string) ([]client.Object, error)

	mu        sync.Mutex
	tried     bool
	installed error
}

// Start installs the policies and keeps them installed until ctx ends.
func (g *Guard) Start(ctx context.Context) error {
	for {
		wait := guardPeriod
		err := g.install(ctx)
		if err != nil {
			wait = 15 * guardRetry
			ctrl.LoggerFrom(ctx).Error(err, "installing the admission policies; the Worlds serve without them")
		}
		g.mu.Lock()
		g.tried, g.installed = true, err
		g.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// NeedLeaderElection keeps a standby operator from writing policies.
func (g *Guard) NeedLeaderElection() bool { return true }

// state tells whether the policies were tried, and what came of it.
func (g *Guard) state() (tried bool, err error) {
	if g == nil {
		return true, errors.New("this operator runs without them")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tried, g.installed
}

func (g *Guard) install(ctx context.Context) error {
	user, err := g.Identify(ctx)
	if err != nil {
		return fmt.Errorf("asking for the operator's own name: %w", err)
	}
	policies, err := g.Render(user)
	if err != nil {
		return fmt.Errorf("rendering the admission policies: %w", err)
	}
	for _, policy := range policies {
		if err := g.ensure(ctx, policy); err != nil {
			return err
		}
	}
	return nil
}

func (g *Guard) ensure(ctx context.Context, policy client.Object) error {
	want, err := untyped(policy, g.Scheme())
	if err != nil {
		return err
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(want.GroupVersionKind())
	err = g.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		err := g.Create(ctx, want)
		if apierrors.IsAlreadyExists(err) { // another operator was faster; the next look compares
			return nil
		}
		return wrap(err, "creating %s %s", want.GetKind(), want.GetName())
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", want.GetKind(), want.GetName(), err)
	case covers(have.Object, want.Object):
		return nil
	}
	overlay(have.Object, want.Object)
	return wrap(g.Update(ctx, have), "updating %s %s", want.GetKind(), want.GetName())
}

// proof is what the canary said last.
type proof struct {
	verdict verdict
	at      time.Time
	retry   time.Duration
}

// due tells whether it is time to try the canary again.
func (p proof) due(now time.Time) bool { return p.at.IsZero() || !now.Before(p.at.Add(p.wait())) }

func (p proof) wait() time.Duration {
	if p.verdict.ok {
		return guardPeriod
	}
	return p.retry
}

// proveFence tries the API server with dry-run writes on the canary Lease: wrong ones that must be refused, by the admission
// policies, and a right one that must pass. Only what was seen counts; that the policies exist proves nothing.
func (r *WorldReconciler) proveFence(ctx context.Context, s *scene) error {
	known := &s.memory.proof
	tried, installed := r.Guard.state()
	if s.canary == nil || !tried {
		s.wake(guardRetry)
		return nil
	}
	if known.due(s.now) {
		v, err := r.tryCanary(ctx, s, installed)
		if err != nil {
			return err
		}
		retry := min(max(2*known.retry, guardRetry), guardPeriod)
		if v.ok {
			retry = 0
		}
		*known = proof{v, s.now, retry}
	}
	if !known.verdict.ok {
		s.wake(known.at.Add(known.wait()).Sub(s.now))
	}
	s.verdicts[v1alpha1.ConditionFenceGuarded] = known.verdict
	return nil
}

func (r *WorldReconciler) tryCanary(ctx context.Context, s *scene, installed error) (verdict, error) {
	if installed != nil {
		return verdict{false, v1alpha1.ReasonPoliciesNotInstalled, fmt.Sprintf(
			"the API server does not guard the Leases: %s. Let the operator write validatingadmissionpolicies, or install them from config/admission.", installed)}, nil
	}
	err := policy.Prove(ctx, r.Client, s.canary)
	switch {
	case err == nil:
		return verdict{true, v1alpha1.ReasonProven, "the API server was seen to refuse wrong writes on a Lease."}, nil
	case errors.Is(err, policy.ErrWrongWriteAccepted):
		return verdict{false, v1alpha1.ReasonWrongWriteAccepted, err.Error() + "."}, nil
	case errors.Is(err, policy.ErrRightWriteRefused):
		return verdict{false, v1alpha1.ReasonRefused, err.Error() + ". Is another operator, or one of another version, installed?"}, nil
	}
	return verdict{}, fmt.Errorf("trying the canary lease: %w", err)
}
