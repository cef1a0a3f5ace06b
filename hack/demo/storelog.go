package main

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// storeWrite is a command that the store carried out and that may have changed it.
type storeWrite struct {
	at   time.Time
	from netip.Addr
	what string
}

// storeLog is what the store says that it carries out, by its command MONITOR: who asked, by address, and when, by the
// store's clock.
type storeLog struct {
	mu     sync.Mutex
	writes []storeWrite
	reads  map[string]bool // commands that change nothing; scripts by "evalsha <hash>"
	err    error
	done   chan struct{}
}

// Bounds of what is kept of the store's log.
const (
	maxWrites = 4 << 20
	maxLine   = 64 << 10
)

// watchStore follows the store's log until ctx ends.
func (d *demo) watchStore(ctx context.Context) (*storeLog, error) {
	l := &storeLog{done: make(chan struct{}), reads: map[string]bool{}}
	for _, name := range []string{"auth", "ping", "info", "config", "client", "hello", "select", "command", "get", "hget", "hmget", "hgetall", "exists", "wait", "waitaof"} {
		l.reads[name] = true
	}
	look, err := hashOf("node/store/scripts/common.lua", "node/store/scripts/look.lua")
	if err != nil {
		return nil, err
	}
	l.reads["evalsha "+look] = true
	conn, err := d.monitor(ctx)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	go l.follow(ctx, bufio.NewReaderSize(conn, maxLine))
	return l, nil
}

// hashOf is the name under which the store knows a script.
func hashOf(files ...string) (string, error) {
	h := sha1.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", fmt.Errorf("reading the scripts of the store: %w", err)
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// monitor connects to the store's pod itself and has it say what it does.
func (d *demo) monitor(ctx context.Context) (net.Conn, error) {
	c, err := d.site.storeConfig(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := c.Credentials()
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := d.site.api.Get(ctx, client.ObjectKey{Namespace: d.site.key.Namespace, Name: v1alpha1.StoreName(d.site.key.Name) + "-0"}, pod); err != nil {
		return nil, fmt.Errorf("finding the store: %w", err)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(portStore)))
	if err != nil {
		return nil, fmt.Errorf("connecting to the store: %w", err)
	}
	if _, err := fmt.Fprintf(conn, "*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n*1\r\n$7\r\nMONITOR\r\n", len(secret.Password), secret.Password); err != nil {
		return nil, errors.Join(fmt.Errorf("asking the store for its log: %w", err), conn.Close())
	}
	return conn, nil
}

func (l *storeLog) follow(ctx context.Context, r *bufio.Reader) {
	defer close(l.done)
	for {
		line, rest, err := r.ReadLine()
		for more := rest; err == nil && more; { // records are long, and what is in them does not matter
			_, more, err = r.ReadLine()
		}
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				l.err = fmt.Errorf("the store's log ended: %w", err)
			}
			return
		}
		if len(line) > 0 && line[0] == '-' {
			l.err = fmt.Errorf("the store keeps its log to itself: %s", line)
			return
		}
		if w, ok := l.parse(string(line[:min(len(line), 256)])); ok {
			l.mu.Lock()
			if len(l.writes) < maxWrites {
				l.writes = append(l.writes, w)
			} else {
				l.err = io.ErrShortBuffer
			}
			l.mu.Unlock()
		}
	}
}

// parse reads `+1700000000.123456 [0 127.20.0.4:5555] "evalsha" "<hash>" ...`; false for what changes nothing, and for what
// scripts do.
func (l *storeLog) parse(line string) (storeWrite, bool) {
	stamp, rest, ok := strings.Cut(strings.TrimPrefix(line, "+"), " [")
	client, command, found := strings.Cut(rest, "] ")
	_, address, hasAddress := strings.Cut(client, " ")
	seconds, err := strconv.ParseFloat(stamp, 64)
	from, badAddress := netip.ParseAddrPort(address)
	if !ok || !found || !hasAddress || err != nil || badAddress != nil {
		return storeWrite{}, false
	}
	words := strings.SplitN(command, " ", 3)
	name := strings.ToLower(strings.Trim(words[0], `"`))
	if name == "evalsha" && len(words) > 1 {
		name += " " + strings.Trim(words[1], `"`)
	}
	return storeWrite{time.UnixMicro(int64(seconds * 1e6)), from.Addr(), name}, !l.reads[name]
}

// all returns what was seen, once the log is closed.
func (l *storeLog) all() ([]storeWrite, error) {
	<-l.done
	return l.writes, l.err
}
