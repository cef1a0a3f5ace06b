package policy_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// attempt is one write on a Lease and what should become of it.
type attempt struct {
	name    string
	by      client.Client
	start   *coordinationv1.Lease
	changes []func(*coordinationv1.Lease)
	refused string // "" means accepted
}

func (r *room) try(t *testing.T, a attempt) {
	t.Run(a.name, func(t *testing.T) {
		err := a.by.Update(t.Context(), edit(a.start, a.changes...), client.DryRunAll)
		if a.refused != "" {
			expectRefused(t, err, a.refused)
		} else if err != nil {
			t.Errorf("refused: %v", err)
		}
	})
}

type changes = []func(*coordinationv1.Lease)

const (
	onlyHolder  = "only its holder may release, transfer or re-number a region"
	onlyTarget  = "only the operator says where a region should be"
	exactlyOne  = "must increase leaseTransitions by exactly one"
	notDecrease = "must not decrease"
	ofThisWorld = "the holder must be a session of this World"
	regionLabel = "labels of a region lease are immutable"
)

func TestHeldRegion(t *testing.T) {
	r := newRoom(t)
	mine, other := r.node(0), r.node(1)
	held := r.region(mine.session(4), 9, other.name)
	unbound := r.tokenClient(v1alpha1.ServiceAccountName(world), nil)
	for _, a := range []attempt{
		{"its holder releases it", mine, held, changes{holder("")}, ""},
		{"its holder transfers it", mine, held, changes{holder(other.session(2)), transitions(10)}, ""},
		{"its holder raises the epoch above the store's", mine, held, changes{transitions(25)}, ""},
		{"its holder's next life takes it over", mine, held, changes{holder(mine.session(5)), transitions(10)}, ""},
		{"its holder changes the order", mine, held, changes{annotated(v1alpha1.AnnotationTarget, mine.name)}, onlyTarget},
		{"its holder changes the note beside the order", mine, held, changes{annotated(v1alpha1.AnnotationMove, "to=1")}, onlyTarget},
		{"its holder lowers the epoch", mine, held, changes{transitions(8)}, notDecrease},
		{"its holder transfers it without a new epoch", mine, held, changes{holder(other.session(2))}, exactlyOne},
		{"its holder transfers it and skips an epoch", mine, held, changes{holder(other.session(2)), transitions(11)}, exactlyOne},
		{"its holder transfers it to another World", mine, held, changes{holder("eden-zone-1#2"), transitions(10)}, ofThisWorld},
		{"its holder transfers it to no session", mine, held, changes{holder(other.name), transitions(10)}, ofThisWorld},
		{"its holder transfers it to life zero", mine, held, changes{holder(other.session(0)), transitions(10)}, ofThisWorld},
		{"its holder hides it", mine, held, changes{labelled(v1alpha1.LabelLease, "other")}, regionLabel},
		{"its holder makes it another region", mine, held, changes{labelled(v1alpha1.LabelRegion, "0-0")}, regionLabel},
		{"its holder gives it another owner", mine, held, changes{owned}, "owner and the finalizers"},
		{"its target steals it", other, held, changes{holder(other.session(2)), transitions(10)}, onlyHolder},
		{"its target frees it", other, held, changes{holder("")}, onlyHolder},
		{"its target raises the epoch", other, held, changes{transitions(10)}, onlyHolder},
		{"its target renews it", other, held, changes{renewed}, onlyHolder},
		{"a token without a pod releases it", unbound, held, changes{holder("")}, onlyHolder},
		{"the operator frees it", r.operator, held, changes{holder("")}, ""},
		{"the operator frees it under a new order", r.operator, held, changes{holder(""), annotated(v1alpha1.AnnotationTarget, mine.name)}, ""},
		{"the operator gives an order", r.operator, held, changes{annotated(v1alpha1.AnnotationTarget, mine.name)}, ""},
		{"the operator gives it away", r.operator, held, changes{holder(other.session(2)), transitions(10)}, onlyHolder},
		{"the operator raises the epoch of a holder", r.operator, held, changes{transitions(10)}, onlyHolder},
		{"the operator lowers the epoch while freeing", r.operator, held, changes{holder(""), transitions(8)}, notDecrease},
		{"an administrator steals it", r.admin, held, changes{holder(other.session(2)), transitions(10)}, onlyHolder},
		{"an administrator frees it", r.admin, held, changes{holder("")}, onlyHolder},
		{"an administrator gives an order", r.admin, held, changes{annotated(v1alpha1.AnnotationTarget, mine.name)}, onlyTarget},
		{"an administrator notes something", r.admin, held, changes{annotated("example.org/note", "x")}, ""},
	} {
		r.try(t, a)
	}
}

func TestFreeRegion(t *testing.T) {
	r := newRoom(t)
	mine, other := r.node(0), r.node(1)
	free := r.region("", 9, mine.name)
	for _, a := range []attempt{
		{"its target takes it", mine, free, changes{holder(mine.session(4)), transitions(10)}, ""},
		{"its target takes it without a new epoch", mine, free, changes{holder(mine.session(4))}, exactlyOne},
		{"its target takes it and skips an epoch", mine, free, changes{holder(mine.session(4)), transitions(12)}, exactlyOne},
		{"its target takes it for another", mine, free, changes{holder(other.session(2)), transitions(10)}, onlyHolder},
		{"its target takes it for a node whose name begins like its own", mine, free, changes{holder("genesis-zone-01#1"), transitions(10)}, ofThisWorld},
		{"its target raises the epoch without taking it", mine, free, changes{transitions(10)}, onlyHolder},
		{"another node takes it", other, free, changes{holder(other.session(2)), transitions(10)}, onlyHolder},
		{"another node takes it and says it should", other, free, changes{holder(other.session(2)), transitions(10), annotated(v1alpha1.AnnotationTarget, other.name)}, onlyHolder},
		{"the operator raises the epoch", r.operator, free, changes{transitions(40)}, ""},
		{"the operator takes it for a node", r.operator, free, changes{holder(mine.session(4)), transitions(10)}, onlyHolder},
	} {
		r.try(t, a)
	}
}

const (
	ownSession   = "a node writes only its own session"
	staysOrRises = "it stays or rises by one with a holder"
	newLife      = "a new holder is a new incarnation"
	oneIdentity  = "belong to one incarnation"
)

func TestHeldSession(t *testing.T) {
	r := newRoom(t)
	mine, other := r.node(0), r.node(1)
	held := r.sessionOf(mine, mine.holder(), 4)
	unbound := r.tokenClient(v1alpha1.ServiceAccountName(world), nil)
	for _, a := range []attempt{
		{"its node renews it", mine, held, changes{renewed}, ""},
		{"its node releases it", mine, held, changes{holder("")}, ""},
		{"its node begins its next life in the same pod", mine, held, changes{transitions(5), annotated(v1alpha1.AnnotationKeyHash, "second")}, ""},
		{"its node changes its key within a life", mine, held, changes{renewed, annotated(v1alpha1.AnnotationKeyHash, "second")}, oneIdentity},
		{"its node changes its address within a life", mine, held, changes{annotated(v1alpha1.AnnotationAddress, "10.9.9.9:1")}, oneIdentity},
		{"its node goes back a life", mine, held, changes{transitions(3)}, staysOrRises},
		{"its node skips a life", mine, held, changes{transitions(6)}, staysOrRises},
		{"its node counts a life while releasing", mine, held, changes{holder(""), transitions(5)}, staysOrRises},
		{"its node holds it under another uid", mine, held, changes{holder(v1alpha1.HolderIdentity(mine.name, "other")), transitions(5)}, ownSession},
		{"its node gives it away", mine, held, changes{holder(other.holder()), transitions(5)}, ownSession},
		{"its node hides it", mine, held, changes{labelled(v1alpha1.LabelLease, "other")}, "labels of a session lease are immutable"},
		{"another node renews it", other, held, changes{renewed}, ownSession},
		{"another node releases it", other, held, changes{holder("")}, ownSession},
		{"another node steals it", other, held, changes{holder(other.holder()), transitions(5)}, ownSession},
		{"a token without a pod renews it", unbound, held, changes{renewed}, ownSession},
		{"the operator revokes it", r.operator, held, changes{holder("")}, ""},
		{"the operator revokes it and counts a life", r.operator, held, changes{holder(""), transitions(5)}, staysOrRises},
		{"the operator takes it", r.operator, held, changes{holder(other.holder()), transitions(5)}, ownSession},
		{"the operator exchanges its key", r.operator, held, changes{annotated(v1alpha1.AnnotationKeyHash, "second")}, oneIdentity},
		{"an administrator revokes it", r.admin, held, changes{holder("")}, ownSession},
		{"an administrator exchanges its key", r.admin, held, changes{annotated(v1alpha1.AnnotationKeyHash, "second")}, oneIdentity},
	} {
		r.try(t, a)
	}
}

func TestSessionOfAnotherPod(t *testing.T) {
	r := newRoom(t)
	before := r.node(0)
	now := r.node(0) // the same name, another uid
	held := r.sessionOf(now, before.holder(), 4)
	take := changes{holder(now.holder()), transitions(5), annotated(v1alpha1.AnnotationKeyHash, "second")}
	for _, a := range []attempt{
		{"the new pod renews the old pod's", now, held, changes{renewed}, ownSession},
		{"the new pod releases the old pod's", now, held, changes{holder("")}, ownSession},
		{"the new pod takes it without a new life", now, held, changes{holder(now.holder())}, newLife},
		{"the new pod takes it as a new life", now, held, take, ""},
	} {
		r.try(t, a)
	}
	t.Run("the old pod's token is worth nothing", func(t *testing.T) {
		if err := before.Update(t.Context(), edit(held, renewed), client.DryRunAll); err == nil {
			t.Error("a deleted pod renewed its session")
		}
	})
}

func TestFreeSession(t *testing.T) {
	r := newRoom(t)
	mine, other := r.node(0), r.node(1)
	free := r.sessionOf(mine, "", 4)
	for _, a := range []attempt{
		{"its node takes it", mine, free, changes{holder(mine.holder()), transitions(5), annotated(v1alpha1.AnnotationKeyHash, "second")}, ""},
		{"its node takes it without a new life", mine, free, changes{holder(mine.holder())}, newLife},
		{"another node takes it", other, free, changes{holder(other.holder()), transitions(5)}, ownSession},
		{"the operator counts a life that nobody lived", r.operator, free, changes{transitions(5)}, staysOrRises},
	} {
		r.try(t, a)
	}
}

func labelled(key, value string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Labels[key] = value }
}

func owned(l *coordinationv1.Lease) {
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "0"}}
}
