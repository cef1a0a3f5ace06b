package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/spatialcells/spatialcells/api/wire"
)

// traffic is what a zone node sends.
type traffic string

const (
	toPeers   traffic = "frames to peers"
	toPlayers traffic = "frames to players"
)

// sent is a packet with bytes that its sender had not sent before.
type sent struct {
	at   time.Time
	from netip.Addr
	what traffic
}

// tap sees all packets that pods send, with the kernel's time, before any of them is dropped. Only bytes that are sent for the
// first time count: what a process wrote before is sent again by the kernel, also while the process is stopped. What opens
// a connection and keeps it (handshakes, WebSocket's own frames, the answers to pings, the farewell) says nothing of the world
// and does not count. What reaches the store is known from the store itself.
type tap struct {
	fd      int
	mu      sync.Mutex
	packets []sent
	flows   map[flow]uint32 // the end of what was sent
	dropped uint32
	done    chan struct{}
}

type flow struct{ from, to netip.AddrPort }

const (
	tapBuffer  = 32 << 20
	snapLength = 192
	// maxPackets bounds what is kept: some hundred a second for each node.
	maxPackets = 4 << 20
	maxFlows   = 1 << 16
)

// openTap listens to what pods send, whose addresses begin with two given bytes.
func openTap(ctx context.Context, a, b byte) (*tap, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("listening to the network: %w", err)
	}
	t := &tap{fd: fd, flows: map[flow]uint32{}, done: make(chan struct{})}
	if err := t.setUp(a, b); err != nil {
		return nil, errors.Join(fmt.Errorf("listening to the network: %w", err), unix.Close(fd))
	}
	go t.listen(ctx)
	return t, nil
}

func (t *tap) setUp(a, b byte) error {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	prefix := uint32(a)<<24 | uint32(b)<<16
	filter := []unix.SockFilter{ // an IPv4 packet begins with a 4, and its source address lies at 12
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x40, Jf: 4},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 12},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xffff0000},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: prefix, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: snapLength},
		{Code: unix.BPF_RET | unix.BPF_K},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return errors.Join(
		unix.SetsockoptSockFprog(t.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program),
		unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, tapBuffer),
		unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(t.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}),
		// Only who asks for all protocols is shown what goes out, and when.
		unix.Bind(t.fd, &unix.SockaddrLinklayer{Protocol: binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL)), Ifindex: lo.Index}),
	)
}

// listen reads until ctx ends.
func (t *tap) listen(ctx context.Context) {
	defer close(t.done)
	defer unix.Close(t.fd)
	packet, control := make([]byte, snapLength), make([]byte, 256)
	for ctx.Err() == nil {
		n, oob, _, from, err := unix.Recvmsg(t.fd, packet, control, 0)
		if err != nil { // the time-out, in which ctx is looked at
			continue
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype == unix.PACKET_OUTGOING {
			t.note(kernelTime(control[:oob]), packet[:n])
		}
	}
	if stats, err := unix.GetsockoptTpacketStats(t.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		t.dropped = stats.Drops
	}
}

func kernelTime(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})) {
			ts := (*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			return time.Unix(ts.Unix())
		}
	}
	return time.Now()
}

// note takes a packet, if it has something new in it.
func (t *tap) note(at time.Time, b []byte) {
	if len(b) < 40 || b[9] != unix.IPPROTO_TCP {
		return
	}
	header, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if len(b) < header+20 {
		return
	}
	from, _ := netip.AddrFromSlice(b[12:16])
	to, _ := netip.AddrFromSlice(b[16:20])
	tcp := b[header:]
	f := flow{netip.AddrPortFrom(from, binary.BigEndian.Uint16(tcp)), netip.AddrPortFrom(to, binary.BigEndian.Uint16(tcp[2:]))}
	what := kind(f)
	start := header + int(tcp[12]>>4)*4
	if what == "" || total < start {
		return
	}
	seq, size := binary.BigEndian.Uint32(tcp[4:]), uint32(total-start)
	if tcp[13]&2 != 0 { // SYN: it counts as a byte, and the numbers of the connection begin with it
		t.flows[f] = seq + 1
		return
	}
	end, known := t.flows[f]
	if size == 0 || known && int32(seq+size-end) <= 0 {
		return
	}
	if !known && len(t.flows) >= maxFlows {
		clear(t.flows)
	}
	t.flows[f] = seq + size
	if start < len(b) && greets(what, b[start:]) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.packets) < maxPackets {
		t.packets = append(t.packets, sent{at, from, what})
	}
}

// kind tells what a flow is for; "": it does not matter.
func kind(f flow) traffic {
	switch {
	case f.from.Port() == portLink || f.to.Port() == portLink:
		return toPeers
	case f.from.Port() == portGateway:
		return toPlayers
	}
	return ""
}

// greets tells whether a packet belongs to the opening of a connection, or to its upkeep.
func greets(what traffic, payload []byte) bool {
	if what == toPeers { // TLS: change cipher spec, alert, handshake
		return payload[0] == 20 || payload[0] == 21 || payload[0] == 22
	}
	return payload[0] == 'H' || onlyUpkeep(payload) // "HTTP/1.1 ..."
}

// onlyUpkeep tells whether there is nothing in a packet to a player but whole WebSocket frames without a word of the world:
// close, ping, pong, and of the gateway's own messages the answer to a ping and the farewell. Those are short.
func onlyUpkeep(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 2 || b[1] >= 126 || len(b) < 2+int(b[1]) {
			return false
		}
		code, body := b[0]&15, b[2:2+int(b[1])]
		if code < 8 && !saysNothing(body) {
			return false
		}
		b = b[2+len(body):]
	}
	return true
}

// saysNothing tells whether messages of a gateway say nothing of the world.
func saysNothing(body []byte) bool {
	for r := bytes.NewReader(body); r.Len() > 0; {
		env := &wire.ServerEnvelope{}
		if err := protodelim.UnmarshalFrom(r, env); err != nil || env.GetPong() == nil && env.GetDisconnected() == nil {
			return false
		}
	}
	return len(body) > 0
}

// all returns what was seen, once the tap is closed.
func (t *tap) all() ([]sent, error) {
	<-t.done
	if t.dropped > 0 || len(t.packets) >= maxPackets {
		return nil, fmt.Errorf("the network was not seen whole: %d packets were dropped, %d kept", t.dropped, len(t.packets))
	}
	return t.packets, nil
}
