package storetest

import (
	"fmt"
	"testing"

	"github.com/spatialcells/spatialcells/node/zone"
)

// session is what a session claim is answered, give or take the master.
type session struct {
	epoch, login uint64
	resumed      bool
	previous     string
	secret       string
}

func (s subject) claims(req zone.StoreRequest, want session) {
	s.t.Helper()
	a := s.do(req, zone.StoreOK)
	got := session{a.SessionEpoch, a.LoginEpoch, a.Resumed, a.PreviousGateway, a.ResumeSecret}
	if got != want {
		s.t.Fatalf("session claim answers %+v, want %+v", got, want)
	}
}

func sessionEpochsRise(_ *testing.T, s subject) {
	s.claims(sessionRequest(12, "a#1", "", "s1"), session{1, 1, false, "", "s1"})
	s.claims(sessionRequest(12, "b#1", "", "s2"), session{2, 2, false, "a#1", "s2"})
	s.claims(sessionRequest(13, "b#1", "", "s3"), session{1, 1, false, "", "s3"})
	previous := "b#1"
	for i := uint64(3); i < 30; i++ {
		gateway := fmt.Sprintf("c#%d", i)
		s.claims(sessionRequest(12, gateway, "", "fresh"), session{i, i, false, previous, "fresh"})
		previous = gateway
	}
}

func resumeKeepsLogin(_ *testing.T, s subject) {
	s.claims(sessionRequest(12, "a#1", "", "s1"), session{1, 1, false, "", "s1"})
	s.claims(sessionRequest(12, "b#1", "s1", "s2"), session{2, 1, true, "a#1", "s1"})
	s.claims(sessionRequest(12, "b#1", "s1", "s3"), session{3, 1, true, "b#1", "s1"})
	s.claims(sessionRequest(12, "c#1", "", "s4"), session{4, 4, false, "b#1", "s4"})
	s.claims(sessionRequest(12, "c#1", "s4", "s5"), session{5, 4, true, "c#1", "s4"})
}

func wrongResume(_ *testing.T, s subject) {
	s.claims(sessionRequest(12, "a#1", "guess", "s1"), session{1, 1, false, "", "s1"})
	s.claims(sessionRequest(12, "a#1", "s", "s2"), session{2, 2, false, "a#1", "s2"})
	s.claims(sessionRequest(12, "a#1", "s1", "s3"), session{3, 3, false, "a#1", "s3"})
	s.claims(sessionRequest(12, "a#1", string(make([]byte, 4096)), "s4"), session{4, 4, false, "a#1", "s4"})
}

func sessionRepeats(_ *testing.T, s subject) {
	login := sessionRequest(12, "a#1", "", "s1")
	resume := sessionRequest(12, "b#1", "s1", "s2")
	for range 3 {
		s.claims(login, session{1, 1, false, "", "s1"})
	}
	for range 3 {
		s.claims(resume, session{2, 1, true, "a#1", "s1"})
	}
	s.claims(sessionRequest(12, "c#1", "", "s3"), session{3, 3, false, "b#1", "s3"})
}

func sessionClaimedAnew(_ *testing.T, s subject) {
	req := sessionRequest(12, "a#1", "", "s1")
	req.ID = 1
	s.claims(req, session{1, 1, false, "", "s1"})
	req.Resume = "s1"
	for i := uint64(2); i < 12; i++ {
		req.ID = i
		for range 2 {
			s.claims(req, session{i, 1, true, "a#1", "s1"})
		}
	}
}

func supersededSession(_ *testing.T, s subject) {
	first := sessionRequest(12, "a#1", "", "s1")
	s.claims(first, session{1, 1, false, "", "s1"})
	s.claims(sessionRequest(12, "b#1", "", "s2"), session{2, 2, false, "a#1", "s2"})
	s.claims(first, session{1, 1, false, "", "s2"})
	s.claims(sessionRequest(12, "c#1", "s2", "s3"), session{3, 2, true, "b#1", "s2"})
}

func sessionTellsMaster(_ *testing.T, s subject) {
	login := sessionRequest(12, "a#1", "", "s1")
	if rec := s.do(login, zone.StoreOK).Record; rec != nil {
		s.t.Fatalf("an account without a master is told %+v", rec)
	}
	s.do(createRequest(master()), zone.StoreOK)
	want := master()
	want.Blob = nil
	s.isRecord(s.do(login, zone.StoreOK).Record, want)
	want.Epoch, want.Home = zone.Epoch{Transfers: 2}, there
	s.do(claimRequest(77, master().Epoch, want.Epoch, there), zone.StoreOK)
	rec := s.do(sessionRequest(12, "b#1", "", "s2"), zone.StoreOK).Record
	s.isRecord(rec, want)
	if rec.Blob != nil {
		s.t.Fatal("a session claim answers the master's blob")
	}
}
