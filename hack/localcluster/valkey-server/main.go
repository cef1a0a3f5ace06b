// Command valkey-server is what the image of a Valkey is in a cluster whose pods are processes: it takes the arguments of that
// server and becomes the one that is installed on this computer, valkey-server or redis-server. Where none is, it serves
// the embedded development store in its place and says so: that one keeps nothing.
//
//	valkey-server [CONFIG FILE] [--port N] [--SETTING VALUE ...]
//
// It adds one setting, the address of the pod (LISTEN_HOST): all pods share the loopback interface.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spatialcells/spatialcells/node/store"
)

// servers are the programs that it may become, the first that is installed.
var servers = []string{"valkey-server", "redis-server"}

// maxConfig bounds the configuration file, in bytes.
const maxConfig = 1 << 20

func main() {
	if err := run(os.Args[1:], os.Getenv("LISTEN_HOST")); err != nil {
		fmt.Fprintln(os.Stderr, "valkey-server:", err)
		os.Exit(1)
	}
}

func run(args []string, host string) error {
	if server := installed(); server != "" {
		return syscall.Exec(server, become(server, args, host), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "Neither %s is installed: the embedded DEVELOPMENT STORE runs in their place and keeps NOTHING. Install one and begin anew.\n",
		strings.Join(servers, " nor "))
	port, password, err := settings(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return store.Serve(ctx, host, port, password)
}

// installed finds a server that is not this program.
func installed() string {
	self, _ := os.Executable()
	for _, name := range servers {
		path, err := exec.LookPath(name)
		if err == nil && !sameFile(path, self) {
			return path
		}
	}
	return ""
}

func sameFile(a, b string) bool {
	first, err1 := os.Stat(a)
	second, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}

// become is the server's command line.
func become(server string, args []string, host string) []string {
	line := append([]string{filepath.Base(server)}, args...)
	if host != "" {
		line = append(line, "--bind", host)
	}
	return line
}

// settings reads what the embedded server needs, from a configuration file and the arguments after it.
func settings(args []string) (port int, password string, err error) {
	port = 6379
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		info, err := os.Stat(args[0])
		if err != nil {
			return 0, "", fmt.Errorf("reading the configuration: %w", err)
		}
		if info.Size() > maxConfig {
			return 0, "", fmt.Errorf("reading the configuration: %s is larger than %d bytes", args[0], maxConfig)
		}
		text, err := os.ReadFile(args[0])
		if err != nil {
			return 0, "", fmt.Errorf("reading the configuration: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "requirepass" {
				password = fields[1]
			}
		}
	}
	for i, arg := range args {
		if arg != "--port" {
			continue
		}
		if i+1 == len(args) {
			return 0, "", errors.New("--port has no value")
		}
		if port, err = strconv.Atoi(args[i+1]); err != nil {
			return 0, "", fmt.Errorf("--port %s: want a number", args[i+1])
		}
	}
	return port, password, nil
}
