package fence

import (
	"context"
	"fmt"
	"net"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// Leases are the only two verbs with which a node touches a single Lease. A typed LeaseInterface of client-go is one.
type Leases interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// WatchedLeases are Leases that can be listed and watched too.
type WatchedLeases interface {
	Leases
	List(ctx context.Context, opts metav1.ListOptions) (*coordinationv1.LeaseList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Clients are the connections of one node to the API server.
type Clients struct {
	// Session is for renewals alone: its own transport, its own connection, no client-side limit.
	Session Leases
	// Regions watches all Leases of the World and writes those of regions.
	Regions WatchedLeases
	// Reviews answers who the API server takes this process for.
	Reviews authenticationclient.SelfSubjectReviewInterface
}

// NewClients makes the clients of a node for the leases in namespace.
func NewClients(cfg *rest.Config, namespace string) (Clients, error) {
	session, err := coordinationclient.NewForConfig(ownTransport(cfg))
	if err != nil {
		return Clients{}, fmt.Errorf("making the client of the session lease: %w", err)
	}
	regions := ownTransport(cfg)
	region, err := coordinationclient.NewForConfig(regions)
	if err != nil {
		return Clients{}, fmt.Errorf("making the client of the region leases: %w", err)
	}
	reviews, err := authenticationclient.NewForConfig(regions)
	if err != nil {
		return Clients{}, fmt.Errorf("making the client of self reviews: %w", err)
	}
	return Clients{Session: session.Leases(namespace), Regions: region.Leases(namespace), Reviews: reviews.SelfSubjectReviews()}, nil
}

// ownTransport returns a copy of cfg that shares no connection and no limiter with any other client.
//
// It speaks HTTP/1.1: there an attempt that timed out closes its connection and the next one dials anew, whereas a dead
// HTTP/2 connection is noticed only after 45 s, longer than any renew deadline. A watch on a dead connection ends by
// keep-alive probes after about 11 s. There is no client-side limit: a renewal is one request per period, and the taker
// bounds what it has in flight; a limiter would sit between the check of the deadline and the write.
func ownTransport(cfg *rest.Config) *rest.Config {
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst, own.RateLimiter = -1, 0, nil
	own.Timeout = 0 // each request has its own; a watch has none
	own.NextProtos = []string{"http/1.1"}
	if own.Dial == nil {
		own.Dial = Dialer("").DialContext
	}
	return own
}

// Dialer dials the API server from an address, or from any if that is empty. Its keep-alive probes find a dead connection.
func Dialer(from string) *net.Dialer {
	d := &net.Dialer{
		Timeout:         5 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
	}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	return d
}
