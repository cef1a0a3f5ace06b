package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/node/store/audit"
	"github.com/spatialcells/spatialcells/node/store/backup"
	"github.com/spatialcells/spatialcells/node/store/connect"
)

// maxExpectation bounds a file of expected serials, in bytes.
const maxExpectation = 64 << 20

// errCouldNotLook: nothing is known about what the store has.
var errCouldNotLook = errors.New("could not look")

// exitCode is 1, or 2 if a command about a whole store could not look at it.
func exitCode(err error) int {
	if errors.Is(err, errCouldNotLook) || errors.Is(err, errNoCommand) {
		return 2
	}
	return 1
}

// blind is an error after which nothing is known about what the store has. It keeps its own words.
type blind struct{ error }

func (b blind) Unwrap() []error { return []error{errCouldNotLook, b.error} }

// wholeStore carries out a command about a whole store, and says on out what the auditor found.
func wholeStore(ctx context.Context, log *slog.Logger, out io.Writer, args []string) error {
	c, err := parseWhole(args)
	if err != nil {
		return blind{err}
	}
	report, err := c.run(ctx, log)
	if report != nil {
		if err := errors.Join(report.Write(out), c.writeJSON(report)); err != nil {
			return blind{fmt.Errorf("%s: %w", c.command, err)}
		}
	}
	switch {
	case report != nil && report.Found > 0:
		return errors.Join(fmt.Errorf("%s: %d faults", c.command, report.Found), err)
	case err != nil:
		return blind{fmt.Errorf("%s failed: %w", c.command, err)}
	}
	return c.praise(out, report)
}

// praise says in one line what a command has done.
func (c *whole) praise(out io.Writer, r *audit.Report) error {
	if c.command != "import" {
		return nil
	}
	_, err := fmt.Fprintf(out, "imported %s: %d records, %d accounts and %d grounds, with %d items; nodes may start\n", c.in, r.Records, r.Accounts, r.Grounds, r.Items)
	return err
}

// whole is what a command about a whole store was told.
type whole struct {
	command, store, storeID string
	files                   connect.Files
	json, expect            string
	out, in                 string
	passes                  int
	columns, rows, edge     int

	expectation audit.Expectation
}

func parseWhole(args []string) (*whole, error) {
	c := &whole{command: args[0]}
	fs := flag.NewFlagSet("zone-node "+c.command, flag.ContinueOnError)
	fs.StringVar(&c.store, "store", "", "redis://host:port, rediss://host:port (TLS) or redis+sentinel://host:port,host:port/primary-name")
	fs.StringVar(&c.storeID, "store-id", "", "id that the store must have; empty: any")
	fs.StringVar(&c.files.Username, "store-username-file", "", "file with the store's user; empty: the default user")
	fs.StringVar(&c.files.Password, "store-password-file", "", "file with the store's password")
	fs.StringVar(&c.files.SentinelUsername, "store-sentinel-username-file", "", "file with the user for the sentinels")
	fs.StringVar(&c.files.SentinelPassword, "store-sentinel-password-file", "", "file with the password for the sentinels")
	fs.StringVar(&c.files.CA, "store-ca-file", "", "file with the authorities, as PEM, that may sign the store's certificate; empty: the machine's")
	fs.IntVar(&c.passes, "passes", 0, "how often all is looked at, at most, until a point in time is found; 0: 256")
	fs.StringVar(&c.json, "json", "", "file for the report, as JSON")
	switch c.command {
	case "audit":
		fs.StringVar(&c.expect, "expect", "", `file with a JSON list of the serials that must be there, or {"present": [...], "absent": [...]}`)
	case "export":
		fs.StringVar(&c.out, "out", "", "file to write; it has the players' resume secrets")
		fs.IntVar(&c.columns, "columns", 0, "regions from west to east, to be noted in the file; 0: not known")
		fs.IntVar(&c.rows, "rows", 0, "regions from north to south, to be noted in the file")
		fs.IntVar(&c.edge, "region-edge-chunks", 250, "edge of a region in chunks of 32 m, to be noted in the file")
	case "import":
		fs.StringVar(&c.in, "in", "", "file to read")
	}
	// As with a node, each flag can be given in the environment, too. A flag goes before it.
	if err := errors.Join(fromEnvironment(fs), fs.Parse(args[1:])); err != nil {
		return nil, err
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("%s: %q is no flag", c.command, fs.Arg(0))
	case c.store == "":
		return nil, fmt.Errorf("%s: -store is needed, such as redis://host:port, or ZONE_STORE in the environment", c.command)
	case c.store == "memory":
		return nil, fmt.Errorf("%s: nobody can look at a store in the memory of its node: -store must be such as redis://host:port", c.command)
	case c.command == "export" && c.out == "":
		return nil, errors.New("export: -out is needed")
	case c.command == "import" && c.in == "":
		return nil, errors.New("import: -in is needed")
	}
	if _, err := connect.Parse(c.store); err != nil {
		return nil, fmt.Errorf("%s: -store (or ZONE_STORE): %w", c.command, err)
	}
	return c, c.readExpectation()
}

// fromEnvironment sets the flags that are in the environment, under the names that a node knows.
func fromEnvironment(fs *flag.FlagSet) error {
	var bad error
	fs.VisitAll(func(f *flag.Flag) {
		name := "ZONE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(name); ok {
			if err := f.Value.Set(v); err != nil {
				bad = errors.Join(bad, fmt.Errorf("environment %s: %w", name, err))
			}
		}
	})
	return bad
}

func (c *whole) readExpectation() error {
	if c.expect == "" {
		return nil
	}
	f, err := os.Open(c.expect)
	if err != nil {
		return fmt.Errorf("opening the expected serials: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxExpectation+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the expected serials: %w", err)
	case len(b) > maxExpectation:
		return fmt.Errorf("file %s is larger than %d bytes", c.expect, maxExpectation)
	}
	if json.Unmarshal(b, &c.expectation.Present) == nil {
		return nil
	}
	c.expectation = audit.Expectation{}
	if err := json.Unmarshal(b, &c.expectation); err != nil {
		return fmt.Errorf(`file %s is neither a list of serials nor {"present": [...], "absent": [...]}: %w`, c.expect, err)
	}
	return nil
}

func (c *whole) writeJSON(r *audit.Report) error {
	if c.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(c.json, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// run returns a report as soon as the auditor has one, also with an error.
func (c *whole) run(ctx context.Context, log *slog.Logger) (*audit.Report, error) {
	config, err := c.files.Config(c.store)
	if err != nil {
		return nil, err
	}
	if err := c.checkID(ctx, config); err != nil {
		return nil, err
	}
	opts := audit.Options{Passes: c.passes, Logger: log}
	switch c.command {
	case "export":
		return c.export(ctx, log, config, opts)
	case "import":
		return backup.Import(ctx, config, c.in, opts)
	}
	client, err := audit.Client(config)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	report, err := audit.Run(ctx, client, opts)
	if err == nil {
		report.Expect(c.expectation)
	}
	return report, err
}

// checkID compares the store's id with the one that it must have. One without an id may be imported to.
func (c *whole) checkID(ctx context.Context, config connect.Config) error {
	r, err := connect.Inspect(ctx, config)
	switch {
	case err != nil:
		return err
	case r.Loading:
		return connect.ErrLoading
	case c.storeID == "" || r.StoreID == c.storeID || c.command == "import" && r.StoreID == "":
		return nil
	}
	return fmt.Errorf("the store's id (key %s) is %q, not %q: it is another World's", connect.Key, r.StoreID, c.storeID)
}

func (c *whole) export(ctx context.Context, log *slog.Logger, config connect.Config, opts audit.Options) (*audit.Report, error) {
	h := backup.Header{Taken: time.Now().UTC().Format(time.RFC3339)}
	if c.columns > 0 {
		h.Grid = &backup.Grid{Columns: c.columns, Rows: c.rows, RegionEdgeChunks: c.edge}
	}
	report, err := backup.Export(ctx, config, c.out, h, opts)
	if report != nil {
		log.Info("the world is in a file, which has the players' resume secrets: keep it as you keep the store", "file", c.out)
	}
	return report, err
}
