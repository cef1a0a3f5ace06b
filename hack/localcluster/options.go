package localcluster

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"
)

const (
	maxMachines  = 16
	defaultGrace = 2 * time.Second
)

// Options say what cluster Up makes. Only Dir is required.
type Options struct {
	Dir      string            // holds everything of the cluster; made when absent
	Binaries string            // folder with the control plane's programs; empty: hack/assets finds or makes them
	Images   map[string]string // image reference -> binary that a container of that image runs
	Machines int               // nodes of the cluster, 1 to 16; 0 means 1
	APIPort  int               // loopback port of the API server; 0 picks a free one
	Fresh    bool              // forget what an earlier cluster left in Dir
	Audit    bool              // every write of a Lease is recorded in AuditLog, with its writer and what was written
	Grace    time.Duration     // between SIGTERM and SIGKILL for containers in Down; 0 means 2 s
	Progress func(line string) // told what happens, one line each; nil is silent
	Log      *slog.Logger      // of the runtime; nil writes to Dir/logs/runtime.log
}

func (o *Options) complete() error {
	if o.Dir == "" {
		return errors.New("no folder given for the cluster")
	}
	abs, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("resolving %s: %w", o.Dir, err)
	}
	o.Dir = abs
	if o.Machines == 0 {
		o.Machines = 1
	}
	if o.Machines < 0 || o.Machines > maxMachines {
		return fmt.Errorf("%d machines asked for, 1 to %d are possible", o.Machines, maxMachines)
	}
	if o.APIPort < 0 || o.APIPort > 65535 {
		return fmt.Errorf("%d is no port", o.APIPort)
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return nil
}
