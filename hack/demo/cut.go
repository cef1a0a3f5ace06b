package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cutTable begins the name of the one nftables table that this process makes; its number follows.
const cutTable = "spatialcells_cut_"

// Ports of what a zone node speaks with. Health and metrics (nodeHTTPPort) are never cut: a kubelet reaches the pods of its
// machine whatever becomes of the network.
const (
	portGateway = 8080
	portLink    = 7777
	portStore   = 6379
)

// cutting is a rule set that drops packets to and from pods, each known by its address. It drops them where they arrive, so
// that whoever listens on the interface sees what is sent in vain.
type cutting struct{ table string }

// newCutting makes an empty table, after it has removed those of processes that are gone.
func newCutting(ctx context.Context) (*cutting, error) {
	if os.Getuid() != 0 {
		return nil, &trouble{cause: errors.New("only root may cut a pod's network"), remedy: "run it as root; nothing but a table of its own is made, and removed in the end"}
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return nil, &trouble{cause: errors.New("nft is not installed, which cuts a pod's network"), remedy: "install it (Debian: apt-get install nftables)"}
	}
	tables, err := nft(ctx, "list tables")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(tables) {
		name, _ := strings.CutPrefix(strings.TrimSpace(line), "table inet ")
		pid, err := strconv.Atoi(strings.TrimPrefix(name, cutTable))
		if err == nil && strings.HasPrefix(name, cutTable) && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			if _, err := nft(ctx, "delete table inet "+name); err != nil {
				return nil, err
			}
		}
	}
	c := &cutting{cutTable + strconv.Itoa(os.Getpid())}
	_, err = nft(ctx, fmt.Sprintf("add table inet %s\nadd chain inet %[1]s drops { type filter hook input priority -10; policy accept; }", c.table))
	return c, err
}

// cut drops what goes between a pod and the given ports, on either side; without ports everything but health and metrics.
func (c *cutting) cut(ctx context.Context, pod string, ports ...int) error {
	var b strings.Builder
	for _, side := range []string{"saddr", "daddr"} {
		if len(ports) == 0 {
			fmt.Fprintf(&b, "add rule inet %s drops ip %s %s tcp sport != %s tcp dport != %[4]s drop\n", c.table, side, pod, nodeHTTPPort)
		}
		for _, port := range ports {
			fmt.Fprintf(&b, "add rule inet %s drops ip %s %s tcp sport %d drop\n", c.table, side, pod, port)
			fmt.Fprintf(&b, "add rule inet %s drops ip %s %s tcp dport %d drop\n", c.table, side, pod, port)
		}
	}
	_, err := nft(ctx, b.String())
	return err
}

// heal takes all cuts back.
func (c *cutting) heal() error {
	_, err := nft(context.Background(), fmt.Sprintf("flush chain inet %s drops", c.table))
	return err
}

// remove takes the table away.
func (c *cutting) remove() error {
	_, err := nft(context.Background(), "delete table inet "+c.table)
	return err
}

// nft carries a script out as a whole.
func nft(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("nft: %w: %s", err, oneLine(string(out)))
	}
	return string(out), nil
}
