package link

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between the dialler and the listener and misbehaves on demand.
type proxy struct {
	listener net.Listener
	target   string
	delay    atomic.Int64
	deaf     atomic.Bool // takes bytes and forwards none
	stuck    atomic.Bool // takes no bytes
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	ended  chan struct{}
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target, conns: map[net.Conn]bool{}, ended: make(chan struct{})}
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(p.close)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	defer p.wg.Done()
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		if !p.keep(in, out) {
			return
		}
		p.wg.Add(2)
		go p.pump(in, out)
		go p.pump(out, in)
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return !p.closed
}

func (p *proxy) pump(from, to net.Conn) {
	defer p.wg.Done()
	defer p.drop(from, to)
	buf := make([]byte, 4096)
	for {
		for p.stuck.Load() {
			if !p.rest(time.Millisecond) {
				return
			}
		}
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if d := time.Duration(p.delay.Load()); d > 0 && !p.rest(d) {
			return
		}
		if p.deaf.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) rest(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-p.ended:
		return false
	}
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// cut breaks what is connected now; later connections go through.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	close(p.ended)
	_ = p.listener.Close()
	p.cut()
	p.wg.Wait()
}

// through returns the Lease of n as seen by one who has to go through the proxy.
func (p *proxy) through(n *node) Peer {
	lease := n.lease()
	lease.Address = p.address()
	return lease
}
