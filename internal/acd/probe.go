// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package acd detects addresses that another host of a link uses, before they are configured:
// by ARP probes (RFC 5227) and by neighbour solicitations as of duplicate address detection
// (RFC 4862).
package acd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Wait is how long answers are awaited. The RFCs wait longer, for links that have just come up.
const Wait = time.Second

// probes are sent within that, in the same intervals.
const probes = 3

// Probe returns whether a host uses an address on the link of an interface, or is about to. An
// interface that cannot ask is an error: one that is missing or down, or has no carrier. What
// shares the interface's link-layer address is not seen.
func Probe(ctx context.Context, name string, address netip.Addr) (taken bool, err error) {
	link, own, err := usable(name)
	if err != nil {
		return false, err
	}
	if slices.Contains(own, address) {
		return true, nil
	}
	return ask(ctx, link, address, Wait, link.HardwareAddr)
}

// Contested returns whether another host uses an address that an interface has, or is about to. Errors are those of Probe, but where hosts
// of the link do not ask for addresses, none has it.
func Contested(ctx context.Context, name string, address netip.Addr) (contested bool, err error) {
	return ContestedWithin(ctx, name, address, Wait)
}

// ContestedWithin is Contested, also of an address that the interface is to have, by hosts that answer within a time.
func ContestedWithin(ctx context.Context, name string, address netip.Addr, wait time.Duration) (contested bool, err error) {
	link, _, err := usable(name)
	if err != nil {
		if errors.Is(err, errNoEthernet) {
			err = nil
		}
		return false, err
	}
	links, err := net.Interfaces()
	if err != nil {
		return false, err
	}
	var own []net.HardwareAddr // the kernel answers ARP on each interface that is on the link
	for _, l := range links {
		own = append(own, l.HardwareAddr)
	}
	return ask(ctx, link, address, wait, own...)
}

// ask asks who has an address, and tells whether others than these answer.
func ask(ctx context.Context, link *net.Interface, address netip.Addr, wait time.Duration, own ...net.HardwareAddr) (answered bool, err error) {
	answered, err = protocolOf(link, address, own).exchange(ctx, link, wait)
	if err != nil {
		err = fmt.Errorf("probe for %s on interface %s: %w", address, link.Name, err)
	}
	return answered, err
}

// errNoEthernet is that hosts do not ask for addresses by an interface.
var errNoEthernet = errors.New("is no Ethernet interface")

func usable(name string) (*net.Interface, []netip.Addr, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, nil, fmt.Errorf("interface %q, which is to ask for duplicate addresses: %w", name, err)
	}
	switch {
	case link.Flags&net.FlagUp == 0:
		return nil, nil, fmt.Errorf("interface %s, which is to ask for duplicate addresses, is down", name)
	case link.Flags&net.FlagRunning == 0:
		return nil, nil, fmt.Errorf("interface %s, which is to ask for duplicate addresses, has no carrier", name)
	case len(link.HardwareAddr) != 6:
		return nil, nil, fmt.Errorf("interface %s, which is to ask for duplicate addresses, %w", name, errNoEthernet)
	}
	var own []netip.Addr
	addresses, err := link.Addrs()
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, prefix.Addr())
		}
	}
	return link, own, err
}

// protocol is how a family asks who has an address.
type protocol struct {
	etherType uint16
	to        net.HardwareAddr
	question  []byte
	// answers returns whether a packet says that another host than this one has the address.
	answers func(packet []byte) bool
}

func protocolOf(link *net.Interface, address netip.Addr, own []net.HardwareAddr) protocol {
	if address.Is4() {
		return protocol{
			unix.ETH_P_ARP, bytes.Repeat([]byte{0xff}, 6), arpProbe(link.HardwareAddr, address),
			func(packet []byte) bool { return arpConflict(packet, address, own...) },
		}
	}
	group := solicitedNode(address).As16()
	question := solicitation(address)
	return protocol{
		unix.ETH_P_IPV6, net.HardwareAddr{0x33, 0x33, group[12], group[13], group[14], group[15]}, question,
		func(packet []byte) bool { return neighborConflict(packet, question, address) },
	}
}

// exchange sends the question several times, and waits for an answer.
func (p protocol) exchange(ctx context.Context, link *net.Interface, wait time.Duration) (bool, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(networkOrder(p.etherType)))
	if err != nil {
		return false, err
	}
	socket := os.NewFile(uintptr(fd), "packet socket")
	defer socket.Close() //nolint:errcheck // the packets are sent
	bind := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(p.etherType), Ifindex: link.Index})
	// Without IPv6 on the interface, its filter drops the answers.
	all := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(link.Index), Type: unix.PACKET_MR_ALLMULTI})
	if err := errors.Join(bind, all); err != nil {
		return false, err
	}
	to := &unix.SockaddrLinklayer{Protocol: networkOrder(p.etherType), Ifindex: link.Index, Halen: uint8(len(p.to))}
	copy(to.Addr[:], p.to)
	begin := time.Now()
	for i := range probes {
		if err := unix.Sendto(fd, p.question, 0, to); err != nil {
			return false, err
		}
		if taken, err := p.await(ctx, socket, begin.Add(wait*time.Duration(i+1)/probes)); taken || err != nil {
			return taken, err
		}
	}
	return false, nil
}

// await reads packets until one is an answer, or until a time.
func (p protocol) await(ctx context.Context, socket *os.File, until time.Time) (bool, error) {
	if err := socket.SetReadDeadline(until); err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Now()) }) // it fails on a closed one
	defer stop()
	for packet := make([]byte, 2048); ; {
		n, err := socket.Read(packet)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return false, context.Cause(ctx)
		case err != nil:
			return false, err
		case p.answers(packet[:n]):
			return true, nil
		}
	}
}

func networkOrder(n uint16) uint16 { return n<<8 | n>>8 }
