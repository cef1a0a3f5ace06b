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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9/logging"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	// What client libraries grumble while an API server is away is no news here.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	logging.Disable() // a store that was killed is no news either
	ctrl.SetLogger(logr.Discard())
	os.Exit(start(os.Args[1:]))
}

// start runs the demo and returns the exit code: 0 good, 1 bad, 130 interrupted before it could tell.
func start(args []string) int {
	began := time.Now()
	s, err := parse(args, os.Getenv)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends at once; the kernel ends the rest
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go followGo(ctx, cancel)
	if s.down {
		err = endOther(ctx, s.dir)
		if err == nil {
			fmt.Println("nothing of the demo runs any more")
		}
	} else {
		d := &demo{settings: s, out: os.Stdout, began: began}
		err = d.run(ctx)
	}
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo: interrupted; nothing is left running")
		return 130
	}
	fmt.Fprint(os.Stderr, explain(err, filepath.Join(s.dir, "logs")))
	return 1
}

// followGo ends the demo when `go run`, which started it, was killed: a signal to that one alone does not get here.
func followGo(ctx context.Context, cancel context.CancelFunc) {
	parent := os.Getppid()
	name, err := os.ReadFile("/proc/" + strconv.Itoa(parent) + "/comm")
	if err != nil || strings.TrimSpace(string(name)) != "go" {
		return
	}
	for pause(ctx, 500*time.Millisecond) == nil {
		if os.Getppid() != parent {
			cancel()
			return
		}
	}
}
