package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/node/store/connect"
	"github.com/spatialcells/spatialcells/node/torus"
)

// config is what the StatefulSet tells a node. Each flag can be given as an environment variable too: ZONE_ and its name
// in capitals, with underscores.
type config struct {
	world, worldUID, namespace, podName, podUID string
	ordinal                                     int
	columns, rows, regionEdgeChunks             int
	leaseDuration, renewDeadline, renewPeriod   time.Duration
	seedFile, tokenKeysDir                      string
	store, storeID                              string
	storeFiles                                  connect.Files
	gatewayPort, httpPort, linkPort             int
	advertiseHost, listenHost                   string
	allowedOrigins                              string
	terrainWorkers                              int

	grid torus.Grid
}

func parse(args []string) (config, error) {
	c := config{listenHost: os.Getenv("LISTEN_HOST")}
	fs := flag.NewFlagSet("zone-node", flag.ContinueOnError)
	fs.StringVar(&c.world, "world", "", "name of the World")
	fs.StringVar(&c.worldUID, "world-uid", "", "uid of the World: peers of another one are refused")
	fs.StringVar(&c.namespace, "namespace", "", "namespace of the World")
	fs.StringVar(&c.podName, "pod-name", "", "name of this pod")
	fs.StringVar(&c.podUID, "pod-uid", "", "uid of this pod")
	fs.IntVar(&c.ordinal, "ordinal", -1, "ordinal of this pod in the StatefulSet")
	fs.IntVar(&c.columns, "columns", 0, "regions from west to east")
	fs.IntVar(&c.rows, "rows", 0, "regions from north to south")
	fs.IntVar(&c.regionEdgeChunks, "region-edge-chunks", 250, "edge of a region in chunks of 32 m")
	fs.DurationVar(&c.leaseDuration, "lease-duration", 15*time.Second, "how long others wait before they revoke this node")
	fs.DurationVar(&c.renewDeadline, "renew-deadline", 10*time.Second, "how long after a renewal this node may act")
	fs.DurationVar(&c.renewPeriod, "renew-period", 2*time.Second, "time between renewals")
	fs.StringVar(&c.seedFile, "seed-file", "", "file with the terrain seed")
	fs.StringVar(&c.tokenKeysDir, "token-keys-dir", "", "directory of the keys that sign players' tokens")
	fs.StringVar(&c.store, "store", "memory", "memory, redis://host:port, rediss://host:port (TLS) or redis+sentinel://host:port,host:port/primary-name")
	fs.StringVar(&c.storeID, "store-id", "", "id that the store must have: another one is refused; empty: any")
	fs.StringVar(&c.storeFiles.Username, "store-username-file", "", "file with the store's user; empty: the default user")
	fs.StringVar(&c.storeFiles.Password, "store-password-file", "", "file with the store's password")
	fs.StringVar(&c.storeFiles.SentinelUsername, "store-sentinel-username-file", "", "file with the user for the sentinels")
	fs.StringVar(&c.storeFiles.SentinelPassword, "store-sentinel-password-file", "", "file with the password for the sentinels")
	fs.StringVar(&c.storeFiles.CA, "store-ca-file", "", "file with the authorities, as PEM, that may sign the store's certificate; empty: the machine's")
	fs.IntVar(&c.gatewayPort, "gateway-port", 8080, "port for players (WebSocket at /play)")
	fs.IntVar(&c.httpPort, "http-port", 8081, "port for /healthz, /readyz, /metrics and /load")
	fs.IntVar(&c.linkPort, "link-port", 7777, "port for other zone nodes")
	fs.StringVar(&c.advertiseHost, "advertise-host", "", "address at which others reach this pod")
	fs.StringVar(&c.allowedOrigins, "allowed-origins", "", "web origins whose pages may connect, separated by commas")
	fs.IntVar(&c.terrainWorkers, "terrain-workers", 1, "goroutines that make chunk payloads")
	var bad error
	fs.VisitAll(func(f *flag.Flag) {
		name := "ZONE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, ok := os.LookupEnv(name); ok {
			if err := f.Value.Set(v); err != nil {
				bad = errors.Join(bad, fmt.Errorf("environment %s: %w", name, err))
			}
		}
	})
	if err := errors.Join(bad, fs.Parse(args)); err != nil {
		return c, err
	}
	return c, c.check()
}

// check names everything that is wrong at once.
func (c *config) check() error {
	var bad []error
	for flag, value := range map[string]string{
		"world": c.world, "world-uid": c.worldUID, "namespace": c.namespace, "pod-name": c.podName, "pod-uid": c.podUID,
		"seed-file": c.seedFile, "token-keys-dir": c.tokenKeysDir, "advertise-host": c.advertiseHost,
	} {
		if value == "" {
			bad = append(bad, fmt.Errorf("--%s is needed; the operator's StatefulSet sets it", flag))
		}
	}
	if c.podName != v1alpha1.NodeName(c.world, c.ordinal) && len(bad) == 0 {
		bad = append(bad, fmt.Errorf("pod %q is not %s: --world, --ordinal and --pod-name must belong together", c.podName, v1alpha1.NodeName(c.world, c.ordinal)))
	}
	var err error
	if c.grid, err = torus.NewGrid(c.columns, c.rows, c.regionEdgeChunks); err != nil {
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

func (c *config) origins() []string {
	if c.allowedOrigins == "" {
		return nil
	}
	return strings.Split(c.allowedOrigins, ",")
}

func (c *config) advertise(port int) string {
	host := c.advertiseHost
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}
