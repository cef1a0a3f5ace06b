package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spatialcells/spatialcells/node/store/connect"
)

const (
	// checkPatience bounds one look at the store.
	checkPatience = 3 * time.Second
	// checkAgain is the time between two looks at a store that does not answer.
	checkAgain = 2 * time.Second
)

// checkStore refuses to start on a store that is not this World's, before anything is taken or written. A store that does not
// answer keeps nobody from starting: what needs it waits, and recheckStore looks again.
func (n *node) checkStore(ctx context.Context) error {
	if !strings.HasPrefix(n.cfg.store, "redis") {
		return nil
	}
	c, err := n.cfg.storeFiles.Config(n.cfg.store)
	if err != nil {
		return err
	}
	if _, err := c.Options(); err != nil {
		return err
	}
	answered, err := n.lookAtStore(ctx, c)
	n.unchecked = !answered
	return err
}

// recheckStore looks at a store that did not answer at the start, until it does or ctx ends. One that is not this World's ends
// the process.
func (n *node) recheckStore(ctx context.Context) {
	if !n.unchecked {
		return
	}
	c, err := n.cfg.storeFiles.Config(n.cfg.store)
	if err != nil {
		n.lose(err)
		return
	}
	tick := time.NewTicker(checkAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if answered, err := n.lookAtStore(ctx, c); answered {
			if err != nil {
				n.lose(err)
			}
			return
		}
	}
}

// lookAtStore reports whether the store answered, and an error if it did and is not this World's.
func (n *node) lookAtStore(ctx context.Context, c connect.Config) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	c.Timeout, c.From = checkPatience, n.cfg.listenHost
	r, err := connect.Inspect(ctx, c)
	if err != nil || r.Loading {
		n.log.Warn("the store does not answer; nobody can sign in and nothing is saved until it does", "store", n.cfg.store, "loading", r.Loading, "error", err)
		return false, nil
	}
	if n.cfg.storeID != "" && r.StoreID != n.cfg.storeID {
		return true, fmt.Errorf("the store at %s is not this World's: its id (key %s) is %q, and this node was told %q; "+
			"correct spec.store of the World or bring back the former volume, condition StoreReady says more", n.cfg.store, connect.Key, r.StoreID, n.cfg.storeID)
	}
	if why := r.Risking(); why != "" {
		n.log.Warn("THE STORE MAY LOSE WHAT IT ACKNOWLEDGED", "store", n.cfg.store, "server", r.Name(), "because", why)
	}
	if why := r.Losing(); why != "" {
		n.log.Warn("THE STORE DOES NOT KEEP WHAT IT IS GIVEN", "store", n.cfg.store, "server", r.Name(), "because", why)
	}
	return true, nil
}
