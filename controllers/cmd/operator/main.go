// Command operator runs the controllers of Worlds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9/logging"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
	"github.com/spatialcells/spatialcells/controllers"
	"github.com/spatialcells/spatialcells/controllers/liveness"
	"github.com/spatialcells/spatialcells/controllers/policy"
)

type options struct {
	leaderElect          bool
	leaderElectNamespace string
	metricsAddress       string
	healthAddress        string
	zoneNodeImage        string
	logLevel             slog.Level
}

func main() {
	var o options
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several operators act")
	flag.StringVar(&o.leaderElectNamespace, "leader-election-namespace", "", "namespace of the leader's Lease; in a pod, the pod's own by default")
	flag.StringVar(&o.metricsAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 switches it off")
	flag.StringVar(&o.healthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 switches it off")
	flag.StringVar(&o.zoneNodeImage, "zone-node-image", os.Getenv("ZONE_NODE_IMAGE"),
		"image of the zone nodes of new Worlds that name none [ZONE_NODE_IMAGE]")
	flag.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "DEBUG, INFO, WARN or ERROR")
	flag.Parse()
	o.metricsAddress, o.healthAddress = listenOn(o.metricsAddress), listenOn(o.healthAddress)
	logging.Disable() // what the stores' client says by itself is in the conditions
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: o.logLevel})))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		ctrl.Log.Error(err, "the operator ends")
		os.Exit(1)
	}
}

// listenOn adds the host to listen on to an address without one, where LISTEN_HOST says so: pods that are processes share
// the ports of all interfaces.
func listenOn(address string) string {
	if host := os.Getenv("LISTEN_HOST"); host != "" && strings.HasPrefix(address, ":") {
		return net.JoinHostPort(host, address[1:])
	}
	return address
}

func run(ctx context.Context, o options) error {
	if o.zoneNodeImage == "" {
		return errors.New("no zone node image: set --zone-node-image or ZONE_NODE_IMAGE")
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	cfg.QPS = -1 // the API server's priority and fairness is the limit
	cfg.UserAgent = "spatialcells-operator"
	controllers.LimitRequests(cfg)
	mgr, err := newManager(cfg, o)
	if err != nil {
		return err
	}
	guard := &controllers.Guard{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Identify: identify(mgr.GetClient()), Render: policy.Render}
	if err := mgr.Add(guard); err != nil {
		return fmt.Errorf("adding the guard: %w", err)
	}
	worlds := &controllers.WorldReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("spatialcells-operator"), Guard: guard,
		DefaultImage: o.zoneNodeImage, Boottime: liveness.Boottime, Now: time.Now,
	}
	if err := worlds.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the World controller: %w", err)
	}
	if err := (&controllers.RebalanceReconciler{Client: mgr.GetClient()}).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up the Rebalance controller: %w", err)
	}
	return mgr.Start(ctx)
}

func newManager(cfg *rest.Config, o options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controllers.CacheOptions(),
		Client:                        controllers.ClientOptions(),
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "operator.spatialcells.io",
		LeaderElectionNamespace:       o.leaderElectNamespace,
		LeaderElectionReleaseOnCancel: true, // the process ends as soon as the manager does
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("alive", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("alive", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

// identify asks the API server who we are.
func identify(c client.Client) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		review := &authenticationv1.SelfSubjectReview{}
		if err := c.Create(ctx, review); err != nil {
			return "", fmt.Errorf("reviewing our own name: %w", err)
		}
		return review.Status.UserInfo.Username, nil
	}
}
