package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// leaseWrite is a write of a Lease that the API server was asked for.
type leaseWrite struct {
	received, answered time.Time
	from               netip.Addr
	lease              string
	done               bool // the API server carried it out
	holder             string
	life               int32
	// renewed is the time that the writer put into a session Lease.
	renewed time.Time
}

// auditEvent is what is read of a line of the API server's log.
type auditEvent struct {
	Stage                                    string
	SourceIPs                                []string
	ObjectRef                                struct{ Name, Namespace string }
	ResponseStatus                           struct{ Code int }
	RequestObject                            *coordinationv1.Lease
	RequestReceivedTimestamp, StageTimestamp time.Time
}

const maxAuditLine = 4 << 20

// leaseWrites reads which Leases were written, by whom, and when, in the API server's own words.
func (d *demo) leaseWrites() ([]leaseWrite, error) {
	f, err := os.Open(d.cluster.AuditLog())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the API server has recorded nothing")
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the API server has recorded: %w", err)
	}
	defer f.Close()
	var list []leaseWrite
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		var e auditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading what the API server has recorded: %w", err)
		}
		if w, ok := e.write(d.site.key.Namespace); ok {
			list = append(list, w)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading what the API server has recorded: %w", err)
	}
	slices.SortStableFunc(list, func(a, b leaseWrite) int { return a.received.Compare(b.received) })
	return list, nil
}

func (e *auditEvent) write(namespace string) (leaseWrite, bool) {
	if e.Stage != "ResponseComplete" || e.ObjectRef.Namespace != namespace || e.RequestObject == nil || len(e.SourceIPs) == 0 {
		return leaseWrite{}, false
	}
	from, err := netip.ParseAddr(e.SourceIPs[0])
	if err != nil {
		return leaseWrite{}, false
	}
	w := leaseWrite{
		received: e.RequestReceivedTimestamp, answered: e.StageTimestamp, from: from, lease: e.ObjectRef.Name,
		done: e.ResponseStatus.Code/100 == 2,
	}
	spec := &e.RequestObject.Spec
	if spec.HolderIdentity != nil {
		w.holder = *spec.HolderIdentity
	}
	if spec.LeaseTransitions != nil {
		w.life = *spec.LeaseTransitions
	}
	if spec.RenewTime != nil {
		w.renewed = spec.RenewTime.Time
	}
	return w, true
}

// ofSession tells whether it is a write of a session Lease.
func (w *leaseWrite) ofSession() bool {
	_, _, err := v1alpha1.ParseNodeName(w.lease)
	return err == nil
}

// ofRegion tells whether it is a write of a region Lease.
func (w *leaseWrite) ofRegion() bool { return strings.Contains(w.lease, "-r-") }
