// Command swarm sends bots into a world and judges what they see; see README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spatialcells/spatialcells/hack/swarm/bots"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "swarm:", err)
		os.Exit(1)
	}
}

type flags struct {
	gateways, key, world, json, expect string
	tinker                             bool
	bots, httpPort                     int
	rate                               float64
	account, seed                      uint64
	duration                           time.Duration
}

func parse() flags {
	var f flags
	flag.StringVar(&f.gateways, "gateways", "127.0.0.1:8080", "addresses of gateways, host:port, separated by commas")
	flag.StringVar(&f.key, "key", "", "file of the development key (*.hs256) that the world trusts")
	flag.StringVar(&f.world, "world", "genesis", "name of the world")
	flag.IntVar(&f.bots, "bots", 100, "number of bots")
	flag.DurationVar(&f.duration, "duration", 0, "how long; 0 until interrupted")
	flag.StringVar(&f.json, "json", "", "file for the report, - for standard output")
	flag.BoolVar(&f.tinker, "tinker", false, "the bots handle items as they walk: dig, pick up, drop, give, eat, split, merge")
	flag.StringVar(&f.expect, "expect", "", "file for the items that must be in the store afterwards, and those that must not, for zone-node audit --expect")
	flag.Float64Var(&f.rate, "rate", 50, "logins a second")
	flag.Uint64Var(&f.account, "first-account", 0, "account of the first bot; 0 takes new ones")
	flag.Uint64Var(&f.seed, "seed", 0, "seed of all chance; 0 takes one by the time")
	flag.IntVar(&f.httpPort, "http-port", 8081, "port of the nodes' /load, on the hosts of the gateways, to learn who owns what; 0 does not ask")
	flag.Parse()
	return f
}

func run() error {
	f := parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := f.swarm(ctx)
	if err != nil {
		return err
	}
	if f.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	go progress(ctx, s)
	r := s.Run(ctx)
	fmt.Fprint(os.Stderr, r.Summary())
	if err := write(f.json, r); err != nil {
		return err
	}
	if err := write(f.expect, s.Expectation()); err != nil {
		return err
	}
	if why := r.Failed(); len(why) > 0 {
		return fmt.Errorf("%s", strings.Join(why, "; "))
	}
	return nil
}

// swarm learns what the world looks like and plans the bots.
func (f flags) swarm(ctx context.Context) (*bots.Swarm, error) {
	if f.key == "" {
		return nil, errors.New("-key is needed: the file of a development key (*.hs256) out of the World's token keys; hack/swarm/README.md shows the command")
	}
	key, err := os.ReadFile(f.key)
	if err != nil {
		return nil, fmt.Errorf("reading the key of development tokens (-key): %w", err)
	}
	o := bots.Options{
		Gateways: strings.Split(f.gateways, ","), Key: key, World: f.world, Bots: f.bots, Rate: f.rate, FirstAccount: f.account, Seed: f.seed,
		Tinker: f.tinker,
	}
	look, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if o.Grid, err = bots.Scout(look, o.Gateways, key, f.world); err != nil {
		return nil, err
	}
	o.Loopback = onLoopback(o.Gateways)
	if f.httpPort > 0 {
		f.learnOwners(look, &o)
	}
	return bots.New(o)
}

func (f flags) learnOwners(ctx context.Context, o *bots.Options) {
	addresses, err := bots.Siblings(o.Gateways, f.httpPort)
	if err == nil {
		o.Owner, err = bots.Owners(ctx, o.Grid, addresses)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "swarm: borders between owners are not known (%v); bots cross any borders\n", err)
	}
}

// onLoopback reports whether all gateways are on this computer.
func onLoopback(gateways []string) bool {
	for _, g := range gateways {
		a, err := netip.ParseAddrPort(g)
		if err != nil || !a.Addr().IsLoopback() {
			return false
		}
	}
	return true
}

func progress(ctx context.Context, s *bots.Swarm) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r := s.Report()
			fmt.Fprintln(os.Stderr, r.Line())
		}
	}
}

func write(file string, r any) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if file == "-" {
		_, err = fmt.Println(string(b))
	} else {
		err = os.WriteFile(file, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
