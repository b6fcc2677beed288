// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// round is how long a Watcher waits for the answers to its questions.
const round = 500 * time.Millisecond

// Watcher asks again and again by ARP who has the addresses of a subnet, on the network of
// the allocations.
type Watcher struct {
	socket int
	link   *net.Interface
	subnet netip.Prefix
	done   chan struct{}

	mu sync.Mutex
	// current are the addresses that were answered for in this round, and last those of the round before.
	current, last map[netip.Addr]bool
	holders       map[netip.Addr]*holder
	duplicates    []string
}

// holder is the hardware address that answered last for an address, and those that did before it.
type holder struct {
	now    string
	former map[string]bool
}

// Watch starts a watcher.
func Watch(subnet netip.Prefix) (*Watcher, error) {
	link, err := net.InterfaceByName(wire)
	if err != nil {
		return nil, err
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(bigEndian(unix.ETH_P_ARP)))
	if err != nil {
		return nil, err
	}
	w := &Watcher{socket: socket, link: link, subnet: subnet, done: make(chan struct{}), current: map[netip.Addr]bool{}, holders: map[netip.Addr]*holder{}}
	wait := unix.NsecToTimeval(round.Nanoseconds())
	err = errors.Join(
		unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: link.Index}),
		unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<22),
	)
	if err != nil {
		return nil, err
	}
	go w.ask()
	go w.listen()
	return w, nil
}

func bigEndian(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

func (w *Watcher) ask() {
	for {
		for a := w.subnet.Addr().Next(); w.subnet.Contains(a); a = a.Next() {
			_ = unix.Sendto(w.socket, w.request(a), 0, &unix.SockaddrLinklayer{ // the next round asks again
				Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: w.link.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255},
			})
		}
		select {
		case <-w.done:
			_ = unix.Close(w.socket) // only read
			return
		case <-time.After(round):
		}
		w.mu.Lock()
		w.last, w.current = w.current, map[netip.Addr]bool{}
		w.mu.Unlock()
	}
}

// request is the probe of RFC 5227, which needs no address of its own.
func (w *Watcher) request(target netip.Addr) []byte {
	packet := []byte{0, 1, 8, 0, 6, 4, 0, 1}
	packet = append(packet, w.link.HardwareAddr...)
	packet = append(packet, make([]byte, 4+6)...)
	return append(packet, target.AsSlice()...)
}

func (w *Watcher) listen() {
	packet := make([]byte, 128)
	for {
		n, _, err := unix.Recvfrom(w.socket, packet, 0)
		select {
		case <-w.done:
			return
		default:
		}
		if err != nil || n < 28 || binary.BigEndian.Uint16(packet[6:]) != 2 {
			continue
		}
		if a := netip.AddrFrom4([4]byte(packet[14:])); w.subnet.Contains(a) { // other watchers ask, too
			w.answered(a, net.HardwareAddr(packet[8:14]).String())
		}
	}
}

// answered notes who has an address. One that answers again after another is a duplicate: an address that moves
// is answered for by the new holder alone from then on, however soon it moves.
func (w *Watcher) answered(a netip.Addr, hardware string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current[a] = true
	h := w.holders[a]
	switch {
	case h == nil:
		w.holders[a] = &holder{hardware, map[string]bool{}}
	case h.now == hardware:
	case h.former[hardware]:
		w.duplicates = append(w.duplicates, fmt.Sprintf("%s: %s has %s and %s", time.Now().Format(time.TimeOnly), a, h.now, hardware))
		fallthrough
	default:
		h.former[h.now], h.now = true, hardware
	}
}

// Duplicates are the addresses that two have answered for in turn, with times.
func (w *Watcher) Duplicates() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.duplicates...)
}

// Answering are the addresses that have been answered for in the last two rounds.
func (w *Watcher) Answering() map[netip.Addr]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[netip.Addr]bool{}
	maps.Copy(found, w.current)
	maps.Copy(found, w.last)
	return found
}

// Close ends the watcher.
func (w *Watcher) Close() { close(w.done) }
