package pods

import (
	"errors"
	"net/netip"
	"sync"
)

// hostsPerBlock leaves .0 and the last addresses of each /24 unused; blocks 0 to 253 belong to pods.
const (
	hostsPerBlock = 250
	podBlocks     = 254
)

// Addresses hands out loopback addresses below one /16, each to one pod at a time.
type Addresses struct {
	prefix [2]byte
	mu     sync.Mutex
	next   int
	used   map[netip.Addr]bool
}

// NewAddresses hands out <a>.<b>.x.y.
func NewAddresses(a, b byte) *Addresses {
	return &Addresses{prefix: [2]byte{a, b}, used: map[netip.Addr]bool{}}
}

// Take returns the wanted address if it is one of these and free, else the next free one. Addresses are not reused
// before all others were, so that a late packet for a dead pod meets nobody.
func (n *Addresses) Take(wanted string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, err := netip.ParseAddr(wanted); err == nil && n.owns(a) && !n.used[a] {
		n.used[a] = true
		return wanted, nil
	}
	for range hostsPerBlock * podBlocks {
		a := netip.AddrFrom4([4]byte{n.prefix[0], n.prefix[1], byte(n.next / hostsPerBlock), byte(n.next%hostsPerBlock + 1)})
		n.next = (n.next + 1) % (hostsPerBlock * podBlocks)
		if !n.used[a] {
			n.used[a] = true
			return a.String(), nil
		}
	}
	return "", errors.New("no pod address is free")
}

func (n *Addresses) owns(a netip.Addr) bool {
	if !a.Is4() {
		return false
	}
	b := a.As4()
	return [2]byte{b[0], b[1]} == n.prefix && b[2] < podBlocks && b[3] >= 1 && b[3] <= hostsPerBlock
}

// Return gives an address back.
func (n *Addresses) Return(ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, err := netip.ParseAddr(ip); err == nil {
		delete(n.used, a)
	}
}
