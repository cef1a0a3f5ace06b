package link

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// sink counts and forgets.
type sink struct{ up, batches, messages atomic.Int64 }

func (s *sink) PeerUp(string, uint64)      { s.up.Add(1) }
func (s *sink) PeerDown(string)            {}
func (s *sink) PeerDead(string)            {}
func (s *sink) Replication(string, []byte) { s.batches.Add(1) }
func (s *sink) Reliable(string, []byte)    { s.messages.Add(1) }

func benchPair(b *testing.B) (*Link, *sink) {
	b.Helper()
	links, sinks := [2]*Link{}, [2]*sink{{}, {}}
	var leases []Peer
	for i, session := range []string{"a#1", "b#1"} {
		identity, err := NewIdentity()
		if err != nil {
			b.Fatal(err)
		}
		links[i], err = New(Config{
			Session: session, ListenHost: "127.0.0.1", Handler: sinks[i], Now: boot,
			Fence: func() time.Duration { return time.Hour },
		}, identity)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(links[i].Close)
		leases = append(leases, Peer{session, links[i].Addr().String(), identity.KeyHash()})
	}
	links[0].SetPeers(leases)
	links[1].SetPeers(leases)
	for sinks[0].up.Load() == 0 {
		runtime.Gosched()
	}
	return links[0], sinks[1]
}

// BenchmarkReplication sends batches as fast as the peer takes them, at most 4 MiB on the way.
func BenchmarkReplication(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			link, peer := benchPair(b)
			batch, window := make([]byte, size), int64(4<<20/size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				for int64(i)-peer.batches.Load() >= window {
					runtime.Gosched()
				}
				link.SendReplication("b#1", 1, batch)
			}
			for peer.batches.Load() < int64(b.N) {
				runtime.Gosched()
			}
		})
	}
}

// BenchmarkReliable has at most 1000 messages unacknowledged.
func BenchmarkReliable(b *testing.B) {
	link, peer := benchPair(b)
	message := make([]byte, 200)
	b.SetBytes(int64(len(message)))
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		for int64(i)-peer.messages.Load() >= 1000 || link.SendReliable("b#1", message) != nil {
			runtime.Gosched()
		}
	}
	for peer.messages.Load() < int64(b.N) {
		runtime.Gosched()
	}
}

// BenchmarkPlainTCP is the physical limit of the machine for the same bytes.
func BenchmarkPlainTCP(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		c, err := listener.Accept()
		if err == nil {
			_, err = io.Copy(io.Discard, c)
		}
		done <- err
	}()
	c, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	batch := make([]byte, maxFrame)
	b.SetBytes(int64(len(batch)))
	for range b.N {
		if _, err := c.Write(batch); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
