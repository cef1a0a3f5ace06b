package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spatialcells/spatialcells/node/fence"
	"github.com/spatialcells/spatialcells/node/gateway"
	"github.com/spatialcells/spatialcells/node/link"
	"github.com/spatialcells/spatialcells/node/partition"
	"github.com/spatialcells/spatialcells/node/store"
	"github.com/spatialcells/spatialcells/node/terrain"
	"github.com/spatialcells/spatialcells/node/zone"
)

// node is the assembled process.
type node struct {
	cfg     config
	log     *slog.Logger
	clock   fence.BootClock
	metrics *prometheus.Registry
	mail    *mailbox

	session *fence.Session
	regions *fence.Regions
	engine  *zone.Engine
	link    *link.Link
	gateway *gateway.Server
	store   store.Driver
	terrain *terrain.Service

	ticks    *tickMetrics
	snapshot atomic.Pointer[snapshot]
	ready    atomic.Bool
	loop     *loop
	lost     chan error
	// unchecked is set while nobody knows whose store it is: it was away when the node started.
	unchecked bool
}

// snapshot is what the loop shows to health, metrics and reports.
type snapshot struct {
	stats   zone.Stats
	regions []zone.RegionLoad
	at      time.Duration
}

// run assembles the node and runs it until ctx ends or the session is lost.
func run(ctx context.Context, log *slog.Logger, cfg config) error {
	n := &node{cfg: cfg, log: log.With("node", cfg.podName), metrics: prometheus.NewRegistry(), lost: make(chan error, 1)}
	n.ticks = newTickMetrics(n.metrics)
	n.mail = &mailbox{
		now: n.clock.Boottime, streams: map[string]uint64{}, urgent: make(chan struct{}, 1),
		full: func() {
			n.lose(errors.New("more is waiting for the next step than this node may keep: it starts anew"))
		},
	}
	health, err := n.serveHTTP()
	if err != nil {
		return err
	}
	defer health.close()
	if err := n.checkStore(ctx); err != nil {
		return err
	}
	kube, err := restConfig(n.cfg.listenHost)
	if err != nil {
		return err
	}
	identity, err := link.NewIdentity()
	if err != nil {
		return fmt.Errorf("making the key of this life: %w", err)
	}
	if err := n.acquire(ctx, kube, identity); err != nil {
		return err
	}
	n.log = n.log.With("session", n.session.Session())
	if err := n.assemble(ctx, identity); err != nil {
		return err
	}
	return n.live(ctx, kube)
}

// restConfig finds the API server: KUBECONFIG, or the pod's service account. Where pods share a network (LISTEN_HOST) each
// dials from its own address.
func restConfig(dialFrom string) (*rest.Config, error) {
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server (a pod needs its service account token, a process KUBECONFIG): %w", err)
	}
	if dialFrom != "" {
		cfg.Dial = fence.Dialer(dialFrom).DialContext
	}
	return cfg, nil
}

// acquire takes the session Lease: from here the fence runs.
func (n *node) acquire(ctx context.Context, kube *rest.Config, identity link.Identity) error {
	clients, err := fence.NewClients(kube, n.cfg.namespace)
	if err != nil {
		return err
	}
	n.session, err = fence.Acquire(ctx, clients, fence.Config{
		World: n.cfg.world, Ordinal: n.cfg.ordinal, PodName: n.cfg.podName, PodUID: n.cfg.podUID,
		LeaseDuration: n.cfg.leaseDuration, RenewDeadline: n.cfg.renewDeadline, RenewPeriod: n.cfg.renewPeriod,
		Address: n.cfg.advertise(n.cfg.linkPort), KeyHash: identity.KeyHash(), Gateway: n.cfg.advertise(n.cfg.gatewayPort),
		Clock: n.clock, Logger: n.log, Metrics: fence.NewMetrics(n.metrics), Lost: n.lose,
	})
	if err != nil {
		return err
	}
	n.regions, err = fence.NewRegions(clients, n.session, fence.RegionsConfig{Columns: n.cfg.columns, Rows: n.cfg.rows, OnTable: n.onTable})
	return err
}

// lose ends the process: another one may act for this node now, or it cannot go on.
func (n *node) lose(err error) {
	select {
	case n.lost <- err:
	default:
	}
}

func (n *node) deadline() time.Duration { return n.session.Deadline().At() }

// assemble makes the heart and its drivers.
func (n *node) assemble(ctx context.Context, identity link.Identity) error {
	seed, err := readSeed(n.cfg.seedFile)
	if err != nil {
		return err
	}
	if n.terrain, err = terrain.New(n.cfg.grid, seed, n.cfg.terrainWorkers, n.mail.chunk); err != nil {
		return fmt.Errorf("starting the terrain: %w", err)
	}
	if n.engine, err = zone.New(zone.Config{
		Grid: n.cfg.grid, Session: n.session.Session(), Node: n.cfg.podName, Ordinal: n.cfg.ordinal, Incarnation: n.session.Incarnation(),
		NotBefore: n.session.NotBefore().UnixMilli(),
	}); err != nil {
		return err
	}
	n.loop = &loop{
		log: n.log, engine: n.engine, boottime: n.clock.Boottime, deadline: n.deadline, take: n.mail.take, show: n.show,
		renewal: n.session.LastRenewal, urgent: n.mail.urgent, hurry: n.mail.takeUrgent,
		observe: func(step time.Duration) { n.ticks.step.Observe(step.Seconds()) },
	}
	if err := n.openStore(ctx, n.deadline); err != nil {
		return err
	}
	if n.link, err = link.New(link.Config{
		Session: n.session.Session(), WorldUID: n.cfg.worldUID, SeedHash: n.terrain.SeedHash(), TerrainVersion: terrain.TerrainVersion,
		Codecs: n.engine.Codecs(), ListenHost: n.cfg.listenHost, Port: n.cfg.linkPort, DialFrom: n.cfg.listenHost,
		Handler: n.mail, Fence: n.deadline, Now: n.clock.Boottime, Log: n.log, Metrics: n.metrics,
	}, identity); err != nil {
		return fmt.Errorf("opening the peer link on port %d: %w", n.cfg.linkPort, err)
	}
	tokens, err := gateway.NewVerifier(gateway.VerifierConfig{World: n.cfg.world, Dir: n.cfg.tokenKeysDir, Log: n.log, Used: n.useToken})
	if err != nil {
		return fmt.Errorf("reading the token keys: %w", err)
	}
	if n.gateway, err = gateway.New(gateway.Config{
		ListenHost: n.cfg.listenHost, Port: n.cfg.gatewayPort, Handler: n.mail, Tokens: tokens, World: n.cfg.world, Node: n.cfg.podName,
		Grid: n.cfg.grid, AllowedOrigins: n.cfg.origins(), Log: n.log, Metrics: n.metrics, Fence: n.deadline, Now: n.clock.Boottime,
	}); err != nil {
		return fmt.Errorf("opening the gateway on port %d: %w", n.cfg.gatewayPort, err)
	}
	return nil
}

// openStore makes the driver of the store. It outlives ctx, which ends with the signal to stop: what the stop saves has to
// be written. closeDrivers ends it.
func (n *node) openStore(ctx context.Context, deadline func() time.Duration) error {
	var err error
	if n.store, err = store.Open(context.WithoutCancel(ctx), n.cfg.store, n.cfg.storeFiles.Password, n.mail.stored, store.Options{
		Now: n.clock.Boottime, Fence: deadline, Logger: n.log, Registerer: n.metrics,
		UsernameFile: n.cfg.storeFiles.Username, CAFile: n.cfg.storeFiles.CA, DialFrom: n.cfg.listenHost,
		SentinelUsernameFile: n.cfg.storeFiles.SentinelUsername, SentinelPasswordFile: n.cfg.storeFiles.SentinelPassword,
	}); err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	return nil
}

// useToken records a login token where all nodes see it, and reports whether one of them took it before.
func (n *node) useToken(ctx context.Context, jti string, forget time.Time) (bool, error) {
	return n.store.UseToken(ctx, jti, time.Until(forget))
}

// readSeed reads the terrain seed: hex as the operator writes it, or any other bytes as they are.
func readSeed(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the terrain seed: %w", err)
	}
	if raw, err := hex.DecodeString(strings.TrimSpace(string(b))); err == nil && len(raw) > 0 {
		return raw, nil
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("the terrain seed in %s is empty", file)
	}
	return b, nil
}

// onTable passes a new region table on: the live sessions to the link, the owners to the heart.
func (n *node) onTable(t fence.Table) {
	peers := make([]link.Peer, 0, len(t.Sessions))
	for _, s := range t.Sessions {
		if s.Session != n.session.Session() {
			peers = append(peers, link.Peer{Session: s.Session, Address: s.Address, KeyHash: s.KeyHash})
		}
	}
	n.link.SetPeers(peers)
	rows := make([]partition.Row, len(t.Regions))
	for i, r := range t.Regions {
		rows[i] = partition.Row{Owner: partition.Owner{Session: r.Session, Node: r.Node, Epoch: r.Epoch}, Target: r.Target, Stage: r.Stage}
	}
	table, err := partition.NewTable(n.cfg.grid, rows)
	if err != nil {
		n.log.Error("the region table does not fit the grid", "error", err)
		return
	}
	n.mail.table(table)
}

// live runs everything until the end, and ends it in order: clients first, then what is saved, then the leases.
func (n *node) live(ctx context.Context, kube *rest.Config) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	n.loop.release = func(out *zone.Outbox, streams map[string]uint64) { n.release(work, out, streams) }
	var running sync.WaitGroup
	running.Go(func() { _ = n.session.Run(work) }) // a loss comes by Lost
	running.Go(func() { n.regions.Run(work) })
	running.Go(func() { n.report(work, kube) })
	running.Go(func() { n.recheckStore(work) })
	stopped := make(chan struct{})
	running.Go(func() {
		defer close(stopped)
		n.loop.run(work)
	})
	n.ready.Store(true)
	n.log.Info("zone node is up", "gateway", n.cfg.advertise(n.cfg.gatewayPort), "link", n.cfg.advertise(n.cfg.linkPort))

	var err error
	select {
	case err = <-n.lost:
		n.ready.Store(false)
		n.log.Error("this life of the node is over", "cause", err)
		cancel()
	case <-ctx.Done():
		n.ready.Store(false)
		n.stop(stopped)
		cancel()
	}
	<-stopped
	n.closeDrivers()
	n.session.Stopped()
	running.Wait()
	return err
}

const (
	// saveGrace is how long a stop waits for the store to have everything.
	saveGrace = 5 * time.Second
	// releaseGrace is how long a stop waits for the API server to take the leases back.
	releaseGrace = 5 * time.Second
)

// stop is the graceful end: no new players, everything saved, the simulation over, then the leases given back.
func (n *node) stop(stopped <-chan struct{}) {
	n.log.Info("stopping: players are asked to reconnect elsewhere, everything is saved")
	n.loop.stopping.Store(true)
	select {
	case <-stopped: // the loop ends by itself when all is saved
	case <-time.After(saveGrace):
		n.log.Warn("the store did not take everything in time; what is missing is at most 5 s old", "waited", saveGrace)
		n.loop.stopping.Store(false)
		n.loop.halt.Store(true)
		<-stopped
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseGrace)
	defer cancel()
	if err := errors.Join(n.regions.Release(ctx, nil), n.session.Release(ctx)); err != nil {
		n.log.Warn("the leases could not be given back; the operator will notice the end of the pod", "error", err)
	}
}

func (n *node) closeDrivers() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := n.gateway.Shutdown(ctx); err != nil {
		n.log.Warn("closing the gateway", "error", err)
	}
	n.link.Close()
	if err := n.store.Close(); err != nil {
		n.log.Warn("closing the store", "error", err)
	}
	n.terrain.Close()
}
