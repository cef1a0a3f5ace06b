package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"
)

// shortestChaos is long enough for two kills of the store.
const shortestChaos = 45 * time.Second

// settings of a run. Each has a flag, and the ones of the Makefile's users an environment variable too.
type settings struct {
	dir      string
	world    string // file of the World
	duration time.Duration
	bots     int
	apiPort  int
	json     string
	faults   []fault
	keep     bool
	down     bool
	chaos    bool
	failover bool
	fence    bool
	handoffs int // how many a run must show
}

// A run must show a handoff for each so many seconds of one bot: half of what 40 bots in 45 s and 100 in 60 s did on two
// busy cores. More than mostHandoffs show no more.
const (
	botSecondsPerHandoff = 40
	mostHandoffs         = 200
)

// leastHandoffs is how many handoffs so many bots must have had after a time, at least one.
func leastHandoffs(bots int, duration time.Duration) int {
	return min(max(int(float64(bots)*duration.Seconds()/botSecondsPerHandoff), 1), mostHandoffs)
}

// readDuration says what to write where the unit is missing.
func readDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if _, number := strconv.ParseFloat(text, 64); err != nil && number == nil {
		return 0, fmt.Errorf("%s of what? Write %ss for seconds, or %sm for minutes", text, text, text)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no time; write 90s or 5m", text)
	}
	return d, nil
}

func parse(args []string, env func(string) string) (settings, error) {
	s := settings{}
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.StringVar(&s.dir, "dir", ".run/demo", "folder of the local cluster and its logs")
	fs.StringVar(&s.world, "world", "config/samples/1-smallest.yaml", "file of the World to apply [WORLD]")
	fs.Func("duration", "how long the bots run before the summary, such as 90s; 0 until Ctrl-C [DURATION]", func(text string) (err error) {
		s.duration, err = readDuration(text)
		return err
	})
	fs.IntVar(&s.bots, "bots", 100, "number of bots, 1 to 5000 [BOTS]")
	fs.IntVar(&s.apiPort, "api-port", 0, "port of the API server; 0 takes a free one [API_PORT]")
	fs.StringVar(&s.json, "json", "", "file for the summary, for machines [JSON]")
	fs.BoolVar(&s.keep, "keep", false, "after the summary leave the world running until Ctrl-C [KEEP=1]")
	fs.BoolVar(&s.down, "down", false, "end a demo that runs elsewhere, or what one left behind")
	fs.BoolVar(&s.chaos, "chaos", false, "kill zone nodes and the store under bots that handle items, and hold the store against what they know")
	fs.BoolVar(&s.failover, "failover", false, "end zone nodes in every way under bots that handle items, and measure how long their regions stand still")
	fs.BoolVar(&s.fence, "fence", false, "stop, cut off and mislead zone nodes under bots, and look from outside for anything that a fenced one does")
	fs.IntVar(&s.handoffs, "handoffs", -1, fmt.Sprintf("how many handoffs a run with a duration must show; -1: one for each %d seconds of a bot, up to %d", botSecondsPerHandoff, mostHandoffs))
	script := fs.String("fault", "", "faults to inject, e.g. kill:1@30s,stop:2@40s+20s,api@50s+30s,store@90s, or move@25s, window@20s, crowd@20s; hack/demo/README.md says what each does [FAULT]")
	for variable, name := range map[string]string{
		"WORLD": "world", "DURATION": "duration", "BOTS": "bots", "API_PORT": "api-port", "JSON": "json", "FAULT": "fault",
	} {
		if v := env(variable); v != "" {
			if err := fs.Set(name, v); err != nil {
				return s, fmt.Errorf("environment %s=%s: %w", variable, v, err)
			}
		}
	}
	if v := env("KEEP"); v != "" {
		keep, err := strconv.ParseBool(v)
		if err != nil {
			return s, fmt.Errorf("environment KEEP=%s: want 1 or 0", v)
		}
		s.keep = keep
	}
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	if s.handoffs < 0 {
		s.handoffs = leastHandoffs(s.bots, s.duration)
	}
	var err error
	if s.faults, err = parseFaults(*script); err != nil {
		return s, err
	}
	return s, s.check(fs.NArg())
}

// drilled tells whether the run goes by a script of faults that is built in.
func (s *settings) drilled() bool { return s.failover || s.fence }

func (s *settings) check(rest int) error {
	switch {
	case rest > 0:
		return errors.New("demo takes flags only; see -help")
	case s.bots < 1 || s.bots > 5000:
		return fmt.Errorf("%d bots; want 1 to 5000", s.bots)
	case s.duration < 0:
		return fmt.Errorf("DURATION (-duration) %v is negative", s.duration)
	case s.chaos && (s.duration < shortestChaos || len(s.faults) > 0 || s.keep):
		return fmt.Errorf("-chaos needs a DURATION (-duration) of %v or more, has faults of its own, and ends", shortestChaos)
	}
	if s.drilled() && (s.duration > 0 || len(s.faults) > 0 || s.keep || s.chaos || s.failover == s.fence) {
		return errors.New("-failover and -fence have faults of their own, end when those are through, and go one at a time")
	}
	for _, f := range s.faults {
		if end := f.at + f.length + recovery; s.duration > 0 && end > s.duration {
			return fmt.Errorf("fault %v needs until %v to end and be recovered from; raise DURATION (-duration) to that or more", f, end)
		}
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return errors.New("run it in the root of the repository: make demo")
	}
	return nil
}
