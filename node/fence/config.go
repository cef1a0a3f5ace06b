package fence

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// maxOrdinal bounds the ordinals that are believed when they are read from a Lease; a World has at most 64 nodes.
const maxOrdinal = 1024

// Config says who this process is and how its fence is timed.
type Config struct {
	World   string
	Ordinal int
	// PodName and PodUID name the pod that this process runs in. The pod has the name of the node.
	PodName string
	PodUID  string

	// LeaseDuration is how long others must see the session unchanged before they may take it.
	LeaseDuration time.Duration
	// RenewDeadline is how long after the start of an answered renewal this process may act.
	RenewDeadline time.Duration
	// RenewPeriod is the time between renewals, and the longest one attempt may take.
	RenewPeriod time.Duration

	// Address (host:port of the peer link), KeyHash (hexadecimal SHA-256 of the public key of this incarnation) and Gateway
	// (host:port of the client socket) are published on the session Lease.
	Address string
	KeyHash string
	Gateway string

	// SkipTokenCheck leaves out the check that the service account token is bound to this pod. For tests without a real API
	// server only.
	SkipTokenCheck bool

	// Clock defaults to BootClock.
	Clock Clock
	// Logger defaults to slog.Default.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
	// Lost is called once, from the renewing goroutine, when the session is lost for good. The deadline is revoked by then
	// and StopGrace runs: the process must end.
	Lost func(error)
	// StopGrace is how long after the loss of the session, by the boot-time clock, the process may take until it calls
	// Session.Stopped. Default 5 s.
	StopGrace time.Duration
	// Exit ends a process that did not stop in StopGrace. Default os.Exit.
	Exit func(code int)
}

// withDefaults returns c with defaults filled in.
func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = BootClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Lost == nil {
		c.Lost = func(error) {}
	}
	if c.StopGrace == 0 {
		c.StopGrace = 5 * time.Second
	}
	if c.Exit == nil {
		c.Exit = os.Exit
	}
	return c
}

// Validate reports every setting that is unusable, with what to do.
func (c Config) Validate() error {
	var errs []error
	if node := v1alpha1.NodeName(c.World, c.Ordinal); c.PodName != node {
		errs = append(errs, fmt.Errorf("pod name %q: the pod of node %d of World %q must be called %q", c.PodName, c.Ordinal, c.World, node))
	}
	if c.Ordinal < 0 || c.Ordinal >= maxOrdinal {
		errs = append(errs, fmt.Errorf("ordinal %d: want 0 to %d", c.Ordinal, maxOrdinal-1))
	}
	if c.PodUID == "" {
		errs = append(errs, errors.New("pod uid is empty: pass the uid of the pod, by the downward API field metadata.uid"))
	}
	if c.RenewPeriod <= 0 || c.RenewDeadline < 2*c.RenewPeriod {
		errs = append(errs, fmt.Errorf("renew period %s: want more than 0 and at most half of the renew deadline %s", c.RenewPeriod, c.RenewDeadline))
	}
	if c.LeaseDuration%time.Second != 0 || c.LeaseDuration < c.RenewDeadline+c.RenewDeadline/5 {
		errs = append(errs, fmt.Errorf("lease duration %s: want whole seconds, and at least 1.2 times the renew deadline %s", c.LeaseDuration, c.RenewDeadline))
	}
	return errors.Join(errs...)
}

// holder is the holder identity of this process on its session Lease.
func (c Config) holder() string { return v1alpha1.HolderIdentity(c.PodName, c.PodUID) }
