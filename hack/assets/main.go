// Command assets prints the folder that holds the Kubernetes programs, getting them first where they are missing. See
// package programs for where from.
//
//	go run ./hack/assets                              all programs
//	go run ./hack/assets --need etcd,kube-apiserver   some of them
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spatialcells/spatialcells/hack/assets/programs"
)

func main() {
	need := flag.String("need", "", "comma-separated programs, of "+strings.Join(programs.All, ", ")+"; all when empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	opts := programs.Options{Progress: func(line string) { fmt.Fprintln(os.Stderr, "assets: "+line) }}
	if *need != "" {
		opts.Need = strings.Split(*need, ",")
	}
	dir, err := programs.Dir(ctx, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "assets: "+err.Error())
		stop()
		os.Exit(1)
	}
	fmt.Println(dir)
}
