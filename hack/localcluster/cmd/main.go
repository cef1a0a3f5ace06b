// Command cmd runs a local cluster: real Kubernetes, pods as processes. See package localcluster.
//
//	up --dir DIR [--image NAME=BINARY ...] [--machines N] [--port N] [--fresh] [--detach]
//	load --dir DIR --image NAME=BINARY ...
//	status --dir DIR
//	down --dir DIR [--purge]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spatialcells/spatialcells/hack/localcluster"
)

const usage = `usage: localcluster COMMAND --dir DIR [flags]
  up      start a cluster; runs until Ctrl-C, or in the background with --detach
  load    give images to a running cluster
  status  say what runs
  down    stop the cluster; --purge removes its folder too`

// imageFlags collects --image NAME=BINARY.
type imageFlags map[string]string

func (f imageFlags) String() string { return "" }

func (f imageFlags) Set(s string) error {
	name, binary, ok := strings.Cut(s, "=")
	if !ok || name == "" || binary == "" {
		return errors.New("want NAME=BINARY")
	}
	f[name] = binary
	return nil
}

type arguments struct {
	dir      string
	images   imageFlags
	machines int
	port     int
	fresh    bool
	detach   bool
	purge    bool
	binaries string
}

func parse(command string, args []string, out io.Writer) (arguments, error) {
	a := arguments{images: imageFlags{}}
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(out)
	fs.StringVar(&a.dir, "dir", "", "folder of the cluster (required)")
	switch command {
	case "up":
		fs.Var(a.images, "image", "NAME=BINARY: what a container of that image runs; may be repeated")
		fs.IntVar(&a.machines, "machines", 1, "number of nodes")
		fs.IntVar(&a.port, "port", 0, "port of the API server; 0 picks a free one")
		fs.BoolVar(&a.fresh, "fresh", false, "forget an earlier cluster in the folder")
		fs.BoolVar(&a.detach, "detach", false, "return when the cluster takes pods and leave it running")
		fs.StringVar(&a.binaries, "binaries", "", "folder with etcd, kube-apiserver and the others; empty finds or builds them")
	case "load":
		fs.Var(a.images, "image", "NAME=BINARY; may be repeated")
	case "down":
		fs.BoolVar(&a.purge, "purge", false, "remove the folder, logs included")
	case "status":
	default:
		return a, fmt.Errorf("no command %q; %s", command, usage)
	}
	if err := fs.Parse(args); err != nil {
		return a, err
	}
	if a.dir == "" || fs.NArg() > 0 {
		return a, errors.New("want --dir DIR and flags only; " + usage)
	}
	var err error
	a.dir, err = filepath.Abs(a.dir)
	return a, err
}

func main() {
	localcluster.SilenceClients()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "localcluster: "+err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) == 0 {
		return errors.New("no command; " + usage)
	}
	a, err := parse(args[0], args[1:], progress)
	if err != nil {
		return err
	}
	switch args[0] {
	case "up":
		if a.detach {
			return detach(ctx, a, args[1:], out, progress)
		}
		return up(ctx, a, out, progress)
	case "load":
		return load(a)
	case "status":
		return status(ctx, a.dir, out)
	}
	return down(ctx, a, out)
}

func load(a arguments) error {
	for name, binary := range a.images {
		if err := localcluster.LoadImage(a.dir, name, binary); err != nil {
			return err
		}
	}
	return nil
}

func up(ctx context.Context, a arguments, out, progress io.Writer) error {
	c, err := localcluster.Up(ctx, localcluster.Options{
		Dir: a.dir, Images: a.images, Machines: a.machines, APIPort: a.port, Fresh: a.fresh, Binaries: a.binaries,
		Progress: func(line string) { fmt.Fprintln(progress, line) },
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the cluster takes pods; use it with\n  export KUBECONFIG=%s\n  %s get nodes\n", c.Kubeconfig(), c.Kubectl())
	<-ctx.Done()
	fmt.Fprintln(progress, "stopping the cluster")
	return c.Down(context.WithoutCancel(ctx))
}

func down(ctx context.Context, a arguments, out io.Writer) error {
	if err := localcluster.Stop(ctx, a.dir); err != nil {
		return err
	}
	if a.purge {
		if err := localcluster.Purge(a.dir); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "nothing of the cluster in "+a.dir+" runs any more")
	return nil
}
