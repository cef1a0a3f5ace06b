package controllers

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/store/connect"
)

const (
	ownID     = "default/genesis/a1b2/one"
	foreignID = "default/eden/a1b2/one"
)

// durable is what a server says that is as it should be.
func durable(id string) connect.Report {
	return connect.Report{Server: "valkey", Version: "8.1.0", Role: "master", AOF: true, Fsync: "always", Eviction: "noeviction", StoreID: id}
}

func but(r connect.Report, change func(*connect.Report)) connect.Report {
	change(&r)
	return r
}

func TestWhatIsFoundAtAStoreIsJudged(t *testing.T) {
	failing := func(err error) *storeFinding { return &storeFinding{err: err} }
	found := func(r connect.Report) *storeFinding { return &storeFinding{report: r} }
	managed := question{url: "redis://10.0.0.1:6379", managed: true, podRunning: true, credentials: "genesis-store"}
	external := question{url: "redis://valkey:6379", credentials: "keys", ca: "authority"}
	down := managed
	down.podRunning = false
	for name, c := range map[string]struct {
		asked   question
		known   string
		finding *storeFinding
		ok      bool
		reason  string
		says    string
	}{
		"a pod that starts":                 {down, "", nil, false, "Progressing", "describe pod genesis-store-0"},
		"a pod that is gone":                {down, ownID, found(durable(ownID)), false, "Unreachable", "save when it is back"},
		"not asked yet":                     {managed, "", nil, false, "Progressing", "asking the store"},
		"a missing Secret":                  {external, ownID, &storeFinding{missing: "Secret keys does not exist. Create it."}, false, "SecretMissing", "Create it"},
		"no answer":                         {external, ownID, failing(errors.New("connection refused")), false, "Unreachable", "see that it runs"},
		"a wrong password":                  {external, ownID, failing(fmt.Errorf("x: %w", connect.ErrCredentials)), false, "WrongPassword", "Secret keys"},
		"a wrong password of ours":          {managed, ownID, failing(fmt.Errorf("x: %w", connect.ErrCredentials)), false, "WrongPassword", "delete pod genesis-store-0"},
		"no password":                       {question{url: "redis://valkey:6379"}, "", failing(fmt.Errorf("x: %w", connect.ErrCredentials)), false, "WrongPassword", "store.external.credentialsSecretName"},
		"a stranger's certificate":          {external, ownID, failing(fmt.Errorf("x: %w", connect.ErrUntrusted)), false, "Untrusted", "Secret authority"},
		"loading":                           {managed, ownID, found(connect.Report{Version: "8", Loading: true}), false, "Progressing", "wait"},
		"loading when written to":           {managed, "", failing(fmt.Errorf("x: %w", connect.ErrLoading)), false, "Progressing", "wait"},
		"a replica":                         {external, ownID, found(but(durable(ownID), func(r *connect.Report) { r.Role = "slave" })), false, "NotPrimary", "use mode Sentinel"},
		"a replica when written to":         {external, "", failing(fmt.Errorf("x: %w", connect.ErrReadOnly)), false, "NotPrimary", "use mode Sentinel"},
		"another World's":                   {external, "", found(durable(foreignID)), false, "WrongStore", "delete that key"},
		"another terrain's":                 {external, "", found(durable("default/genesis/ffff/one")), false, "WrongStore", "delete that key"},
		"another store":                     {external, ownID, found(durable(ownID + "x")), false, "WrongStore", "Correct spec.store"},
		"an empty store":                    {managed, ownID, found(durable("")), false, "WrongStore", "set that key to that id"},
		"a former life's":                   {managed, "", found(durable(ownID)), true, "Ready", "keeps every write"},
		"all is well":                       {external, ownID, found(durable(ownID)), true, "Ready", "valkey 8.1.0"},
		"no file, external":                 {external, ownID, found(but(durable(ownID), func(r *connect.Report) { r.AOF = false })), true, "NotDurable", "WARNING"},
		"no file, managed":                  {managed, ownID, found(but(durable(ownID), func(r *connect.Report) { r.AOF = false })), false, "NotDurable", "delete pod genesis-store-0"},
		"a full disk, external":             {external, ownID, found(but(durable(ownID), func(r *connect.Report) { r.AOFFailed = true })), false, "NotDurable", "disk may be full"},
		"eviction, external":                {external, ownID, found(but(durable(ownID), func(r *connect.Report) { r.MaxMemory, r.Eviction = 1, "allkeys-lru" })), false, "NotDurable", "throws records away"},
		"one that does not say how durable": {external, ownID, found(but(durable(ownID), func(r *connect.Report) { r.Fsync = "" })), true, "Ready", "see yourself"},
		"the embedded one":                  {managed, ownID, found(connect.Report{StoreID: ownID}), true, "DevelopmentStore", "NOTHING"},
	} {
		c.asked.namespace, c.asked.world, c.asked.terrain = "default", "genesis", "a1b2"
		got := storeView{c.asked, c.finding}.judge(c.known)
		if got.ok != c.ok || got.reason != c.reason || !strings.Contains(got.message, c.says) {
			t.Errorf("%s: got %+v, want %v %s with %q", name, got, c.ok, c.reason, c.says)
		}
	}
}

func TestWhichStoresAreGivenAnID(t *testing.T) {
	for name, c := range map[string]struct {
		known  string
		report connect.Report
		writes string
	}{
		"a new one":                       {"", durable(""), "default/genesis/a1b2/"},
		"one that has an id":              {"", durable(foreignID), ""},
		"one that should have an id":      {ownID, durable(""), ""},
		"the embedded one, started again": {ownID, connect.Report{}, ownID},
		"a replica":                       {"", but(durable(""), func(r *connect.Report) { r.Role = "slave" }), ""},
		"one that is loading":             {"", connect.Report{Version: "8", Role: "master", Loading: true}, ""},
	} {
		q := question{namespace: "default", world: "genesis", terrain: "a1b2", knownID: c.known}
		if got := q.idToWrite(c.report); (got == "") != (c.writes == "") || !strings.HasPrefix(got, c.writes) {
			t.Errorf("%s: wrote %q, want %q", name, got, c.writes)
		}
	}
	long := newStoreID(strings.Repeat("n", 63), strings.Repeat("w", v1alpha1.MaxNameLength), "a1b2")
	if len(long) > connect.MaxID {
		t.Errorf("the longest id has %d bytes", len(long))
	}
}

func TestTheWordsOfAnErrorAreTheSameForTheSameCause(t *testing.T) {
	a := calmWords(errors.New("asking: read tcp 10.0.0.9:41234->10.0.0.1:6379: i/o timeout"))
	b := calmWords(errors.New("asking: read tcp 10.0.0.9:55555->10.0.0.1:6379: i/o timeout"))
	if a != b || !strings.Contains(a, "10.0.0.1:6379") {
		t.Errorf("%q and %q", a, b)
	}
	a = calmWords(errors.New("x509: certificate has expired or is not yet valid: current time 2026-01-01T00:00:00Z is after 2025-01-01T00:00:00Z"))
	if strings.Contains(a, "2026") {
		t.Errorf("%q has the time of day", a)
	}
	if got := calmWords(errors.New(strings.Repeat("x", 5000))); len(got) > 400 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestTheURLOfAnExternalStore(t *testing.T) {
	for want, store := range map[string]*v1alpha1.ExternalStore{
		"":                    nil,
		"redis://valkey:6379": {Addresses: []string{"valkey:6379"}, Mode: v1alpha1.StoreStandalone},
		"rediss://valkey:1":   {Addresses: []string{"valkey:1"}, CASecretName: "authority"},
		"rediss+sentinel://a:1,b:2/worlds": {
			Addresses: []string{"a:1", "b:2"}, Mode: v1alpha1.StoreSentinel, PrimaryName: "worlds", CASecretName: "authority",
		},
	} {
		got := externalURL(store)
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if _, err := connect.Parse(got); got != "" && err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
}

func TestThePasswordOfAStoreIsInNoArgument(t *testing.T) {
	args := strings.Join(storeArgs(), " ")
	if strings.Contains(args, "requirepass") || !strings.Contains(args, "--appendonly yes --appendfsync always") {
		t.Errorf("args %s", args)
	}
}
