package main

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/spatialcells/spatialcells/api/wire"
)

// packet is an IPv4 packet with TCP in it.
func packet(from, to string, seq uint32, flags byte, payload []byte) []byte {
	f, d := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	b := make([]byte, 40, 40+len(payload))
	b[0], b[9] = 0x45, 6
	binary.BigEndian.PutUint16(b[2:], uint16(40+len(payload)))
	copy(b[12:], f.Addr().AsSlice())
	copy(b[16:], d.Addr().AsSlice())
	binary.BigEndian.PutUint16(b[20:], f.Port())
	binary.BigEndian.PutUint16(b[22:], d.Port())
	binary.BigEndian.PutUint32(b[24:], seq)
	b[32], b[33] = 5<<4, flags
	return append(b, payload...)
}

func message(t *testing.T, env *wire.ServerEnvelope) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := protodelim.MarshalTo(&b, env); err != nil {
		t.Fatal(err)
	}
	return append([]byte{0x82, byte(b.Len())}, b.Bytes()...)
}

func TestTheTapCountsWhatIsSentForTheFirstTime(t *testing.T) {
	const node, peer, player = "127.20.0.4:41000", "127.20.0.5:7777", "127.200.0.1:5000"
	data := []byte{23, 3, 3, 0, 2, 1, 1}
	pong := message(t, &wire.ServerEnvelope{Message: &wire.ServerEnvelope_Pong{Pong: &wire.Pong{Nonce: 1}}})
	word := message(t, &wire.ServerEnvelope{Message: &wire.ServerEnvelope_Welcome{Welcome: &wire.Welcome{}}})
	for name, c := range map[string]struct {
		packets [][]byte
		want    int
	}{
		"sent once":               {[][]byte{packet(node, peer, 99, 2, nil), packet(node, peer, 100, 16, data)}, 1},
		"sent again":              {[][]byte{packet(node, peer, 100, 16, data), packet(node, peer, 100, 16, data)}, 1},
		"sent again with more":    {[][]byte{packet(node, peer, 100, 16, data), packet(node, peer, 100, 16, append(data, data...))}, 2},
		"over the end of numbers": {[][]byte{packet(node, peer, 1<<32-3, 16, data), packet(node, peer, 4, 16, data)}, 2},
		"acknowledgements":        {[][]byte{packet(node, peer, 100, 16, nil)}, 0},
		"a handshake":             {[][]byte{packet(node, peer, 100, 16, []byte{22, 3, 1, 0, 9})}, 0},
		"to the API server":       {[][]byte{packet(node, "127.0.0.1:24000", 100, 16, data)}, 0},
		"an answer to a ping":     {[][]byte{packet("127.20.0.4:8080", player, 100, 16, pong)}, 0},
		"a word of the world":     {[][]byte{packet("127.20.0.4:8080", player, 100, 16, word)}, 1},
		"both":                    {[][]byte{packet("127.20.0.4:8080", player, 100, 16, append(pong, word...))}, 1},
		"cut short":               {[][]byte{packet("127.20.0.4:8080", player, 100, 16, pong)[:12], {}}, 0},
	} {
		tap := &tap{flows: map[flow]uint32{}}
		for _, p := range c.packets {
			tap.note(noon, p)
		}
		if len(tap.packets) != c.want {
			t.Errorf("%s: %d packets count, want %d", name, len(tap.packets), c.want)
		}
	}
}

func TestTheStoresLogIsRead(t *testing.T) {
	l := &storeLog{reads: map[string]bool{"get": true, "evalsha aa": true}}
	for line, want := range map[string]string{
		`+1770120000.250000 [0 127.20.0.4:5555] "EVALSHA" "bb" "1" "{e:1}"`: "evalsha bb",
		`+1770120000.250000 [0 127.20.0.4:5555] "evalsha" "aa" "1"`:         "",
		`+1770120000.250000 [0 127.20.0.4:5555] "get" "{sync}"`:             "",
		`+1770120000.250000 [0 lua] "hset" "{e:1}" "blob" "x"`:              "",
		`+1770120000.250000 [0 127.20.0.4:5555] "set" "{t:1}" "1"`:          "set",
		"+OK": "",
	} {
		w, changes := l.parse(line)
		if changes != (want != "") || changes && (w.what != want || w.from != pod || !w.at.Equal(noon.Add(250*time.Millisecond))) {
			t.Errorf("%s: %+v, %t", line, w, changes)
		}
	}
}
