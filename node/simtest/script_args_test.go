package simtest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/node/zone"
)

// The arguments of a script's command, by name.

// latest is the newest client of an account.
func (s *script) latest(account int64) *Client {
	for _, cl := range slices.Backward(s.Clients) {
		if cl.Account == uint64(account) {
			return cl
		}
	}
	s.d.Fatalf(s.t, "account %d never logged in", account)
	return nil
}

func (s *script) node(name string) *Node { return s.Nodes[s.num(name, 0)] }

func (s *script) text(name string) string {
	arg, ok := s.d.Arg(name)
	if !ok {
		s.d.Fatalf(s.t, "%s= is missing", name)
	}
	return arg.SingleVal(s.t)
}

func (s *script) num(name string, otherwise int64) int64 {
	if !s.d.HasArg(name) {
		return otherwise
	}
	n, err := strconv.ParseInt(s.text(name), 10, 64)
	s.must(err)
	return n
}

func (s *script) duration(name string) time.Duration {
	if !s.d.HasArg(name) {
		return 0
	}
	d, err := time.ParseDuration(s.text(name))
	s.must(err)
	return d
}

// point is a transition by its name, with dashes for blanks.
func (s *script) point(name string) zone.Point {
	for _, p := range zone.Points() {
		if strings.ReplaceAll(p.String(), " ", "-") == name {
			return p
		}
	}
	s.d.Fatalf(s.t, "there is no transition %q", name)
	return 0
}

// parts is what a dying process gets rid of: all, unless parts= says what.
func (s *script) parts() (what parts) {
	arg, ok := s.d.Arg("parts")
	if !ok {
		return releaseAll
	}
	for _, v := range arg.Vals {
		what |= map[string]parts{"store": releaseStore, "reliable": releaseReliable, "replication": releaseReplication, "clients": releaseClients}[v]
	}
	return what
}
