package services

import (
	"context"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// port is one listener with its connections.
type port struct {
	proxy    *Proxy
	uid      types.UID
	listener net.Listener
	slots    chan struct{} // one element per connection

	mu     sync.Mutex
	want   wanted
	next   int
	open   map[net.Conn]bool
	closed bool
}

func (l *port) set(w wanted) {
	l.mu.Lock()
	l.want = w
	l.mu.Unlock()
}

// close ends the listener and all its connections.
func (l *port) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.open {
		_ = c.Close()
	}
}

// track registers a connection so that close finds it; false means that it is too late.
func (l *port) track(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.open[c] = true
	}
	return !l.closed
}

func (l *port) untrack(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
}

func (l *port) serve(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		l.slots <- struct{}{}
		c, err := l.listener.Accept()
		if err != nil {
			<-l.slots
			if l.isClosed() {
				return
			}
			select { // out of file descriptors, most likely
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() { <-l.slots }()
			l.forward(ctx, c)
		}()
	}
}

func (l *port) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// forward connects one client to the next backend that answers, or resets it.
func (l *port) forward(ctx context.Context, c net.Conn) {
	defer l.untrack(c)
	if !l.track(c) {
		return
	}
	b := l.dial(ctx, c.RemoteAddr())
	if b == nil {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		return
	}
	defer l.untrack(b)
	if l.track(b) {
		pipe(c, b)
	}
}

// dial connects to the next backend that answers. It dials from the client's address, so that a backend sees whose
// connection it is, as behind kube-proxy.
func (l *port) dial(ctx context.Context, client net.Addr) net.Conn {
	l.mu.Lock()
	w, first := l.want, l.next
	l.next++
	l.mu.Unlock()
	addrs := l.proxy.backends(w)
	d := net.Dialer{Timeout: dialTimeout}
	if from, ok := client.(*net.TCPAddr); ok {
		d.LocalAddr = &net.TCPAddr{IP: from.IP}
	}
	for i := range addrs {
		if b, err := d.DialContext(ctx, "tcp", addrs[(first+i)%len(addrs)]); err == nil {
			return b
		}
	}
	return nil
}
