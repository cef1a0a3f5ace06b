package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// ErrWrongWriteAccepted says that the API server accepted a write that a policy should have refused: the policy is not
// enforced, or not yet. Policies take effect within seconds of their creation.
var ErrWrongWriteAccepted = errors.New("the API server accepted a wrong write on the canary lease")

// ErrRightWriteRefused says that a policy refused a write of the operator: it was rendered for another user or version.
var ErrRightWriteRefused = errors.New("the API server refused a right write on the canary lease")

// wrongWrites are writes on a canary Lease that nobody holds. Each is refused by one policy only, so it proves that one.
var wrongWrites = []struct {
	policy string
	change func(*coordinationv1.Lease)
}{
	{RegionLeases, func(l *coordinationv1.Lease) {
		if l.Labels == nil {
			l.Labels = map[string]string{}
		}
		l.Labels[v1alpha1.LabelRegion] = "0-0"
	}},
	{SessionLeases, func(l *coordinationv1.Lease) {
		raised := int32(2)
		if l.Spec.LeaseTransitions != nil {
			raised += *l.Spec.LeaseTransitions
		}
		l.Spec.LeaseTransitions = &raised
	}},
}

// Prove tries the policies with dry-run writes on the canary Lease: one wrong write for each lease policy, and one right
// write of the operator. It needs a client with the operator's own credentials and a canary as the API server last showed
// it, without a holder. The error is ErrWrongWriteAccepted, ErrRightWriteRefused, or what kept it from finding out.
func Prove(ctx context.Context, c client.Client, canary *coordinationv1.Lease) error {
	for _, wrong := range wrongWrites {
		lease := canary.DeepCopy()
		wrong.change(lease)
		err := c.Update(ctx, lease, client.DryRunAll)
		switch {
		case err == nil:
			return fmt.Errorf("%w: policy %s or its binding is missing or not in effect", ErrWrongWriteAccepted, wrong.policy)
		case refusedBy(err, wrong.policy):
		case refusedBy(err, RegionLeases, SessionLeases): // they agree on everything when they know another operator
			return fmt.Errorf("%w: %w", ErrRightWriteRefused, err)
		default:
			return fmt.Errorf("proving policy %s: %w", wrong.policy, err)
		}
	}
	err := c.Update(ctx, rightWrite(canary), client.DryRunAll)
	if err != nil && refusedBy(err, RegionLeases, SessionLeases, ForeignLeases) {
		return fmt.Errorf("%w: %w", ErrRightWriteRefused, err)
	}
	if err != nil {
		return fmt.Errorf("proving that the operator may write: %w", err)
	}
	return nil
}

// rightWrite is an order, as only the operator gives them.
func rightWrite(canary *coordinationv1.Lease) *coordinationv1.Lease {
	lease := canary.DeepCopy()
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[v1alpha1.AnnotationTarget] = "canary"
	return lease
}

// refusedBy tells whether an error of the API server is the verdict of one of the policies.
func refusedBy(err error, policies ...string) bool {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return false
	}
	for _, name := range policies {
		if strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+name+"'") {
			return true
		}
	}
	return false
}
