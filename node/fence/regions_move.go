package fence

import (
	"context"
	"errors"
	"fmt"
	"math"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// ErrOrderChanged: the region is not ordered to the node that it was to be handed to.
var ErrOrderChanged = errors.New("order changed")

// HandOver writes the Lease of a region that this session holds at an epoch to another session, with the next epoch and a stage: the
// instant at which the region becomes the other's. Call it when nothing here acts for the region any more, and go on with it only
// if the answer is an error but ErrNotHeld: then this session holds the region as before, and no write that says otherwise can take
// effect.
//
// A write whose answer does not come may take effect at any later time, so its outcome is settled by another write, one that names
// this session again: if that one is taken, the first can not be any more, because its version is gone. A read would prove nothing.
//
// Errors: ErrNotHeld (another has it, or had it meanwhile), ErrOrderChanged, ErrFenced and ErrEpochExhausted (nothing was written),
// ErrSettled, or that of ctx, after which nothing is known.
func (g *Regions) HandOver(ctx context.Context, index int, epoch uint64, to, stage string) error {
	if index < 0 || index >= len(g.busy) {
		return fmt.Errorf("handing over region %d: there are %d", index, len(g.busy))
	}
	select {
	case g.writes <- struct{}{}:
		defer func() { <-g.writes }()
	case <-ctx.Done():
		return fmt.Errorf("handing over region %d: %w", index, ctx.Err())
	}
	h := handOver{Regions: g, epoch: epoch, to: to, stage: stage}
	if err := g.until(ctx, index, func() (bool, error) { return h.try(ctx, g.ledger.region(index)) }); err != nil {
		return fmt.Errorf("handing over region %d to %s: %w", index, to, err)
	}
	g.log.Info("region handed over", "region", index, "to", to, "stage", stage)
	return nil
}

// ErrSettled: the write was refused, or its answer did not come, and it can not take effect any more.
var ErrSettled = errors.New("not handed over")

// handOver is one of them under way.
type handOver struct {
	*Regions
	epoch     uint64
	to, stage string
	sent      bool // a write may take effect
}

// try makes the next write that there is to make.
func (h *handOver) try(ctx context.Context, r regionEntry) (finished bool, err error) {
	me := h.session.Session()
	switch {
	case r.lease != nil && r.holder == h.to && r.stage == h.stage:
		return true, nil
	case r.lease == nil || r.holder != me || uint64(r.epoch) != h.epoch:
		return true, ErrNotHeld
	case h.sent:
		return h.settle(ctx, r)
	case !sessionOf(h.to, r.target):
		return true, ErrOrderChanged
	case r.epoch == math.MaxInt32:
		return true, ErrEpochExhausted
	}
	err = h.write(ctx, staged(r.lease, h.to, r.epoch+1, h.stage))
	h.sent = !errors.Is(err, ErrFenced)
	return err == nil || !h.sent, err
}

// settle names this session again.
func (h *handOver) settle(ctx context.Context, r regionEntry) (finished bool, err error) {
	if err := h.write(ctx, rewritten(r.lease, h.session.Session(), r.epoch)); err != nil {
		return false, err
	}
	return true, ErrSettled
}

// staged is rewritten with the stage that the new holder has.
func staged(lease *coordinationv1.Lease, holder string, transitions int32, stage string) *coordinationv1.Lease {
	next := rewritten(lease, holder, transitions)
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1alpha1.AnnotationStage, stage)
	return next
}

// sessionOf reports whether a session is one of a node.
func sessionOf(session, node string) bool {
	holder, _, err := v1alpha1.ParseSessionID(session)
	return err == nil && holder == node
}
