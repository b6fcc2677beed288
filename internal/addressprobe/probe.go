// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package addressprobe asks the hosts on a link whether one of them has an address: by ARP as
// RFC 5227 has it, and by neighbour solicitation as RFC 4862 has it.
package addressprobe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// The probes are sent at once and after each pause; answers are awaited for one pause more.
const (
	probes = 3
	pause  = 300 * time.Millisecond
)

// Taken sends probes for an address from an interface of this host, and returns whether another
// one answers, or probes for it, too.
func Taken(ctx context.Context, iface string, address netip.Addr) (bool, error) {
	link, err := net.InterfaceByName(iface)
	if err != nil {
		return false, fmt.Errorf("interface %q: %w", iface, err)
	}
	question := newQuestion(link.HardwareAddr, address)
	socket, err := open(link, question)
	if err != nil {
		return false, fmt.Errorf("interface %q: %w", iface, err)
	}
	defer unix.Close(socket) //nolint:errcheck // nothing is left to write
	for range probes {
		if err := unix.Sendto(socket, question.packet, 0, question.target(link)); err != nil {
			return false, fmt.Errorf("interface %q: %w", iface, err)
		}
		taken, err := await(ctx, socket, question)
		if taken || err != nil {
			return taken, err
		}
	}
	return false, nil
}

// question is what is asked for an address, and how answers look.
type question struct {
	protocol uint16
	packet   []byte
	// to is the multicast or broadcast MAC.
	to [6]byte
	// isAnswer tells whether a packet of another host shows that it has the address.
	isAnswer func(packet []byte) bool
}

func newQuestion(own net.HardwareAddr, address netip.Addr) question {
	if address.Is4() {
		return arpQuestion(own, address)
	}
	return neighbourQuestion(address)
}

// open returns a socket for packets without link headers. It receives multicast answers.
func open(link *net.Interface, q question) (int, error) {
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(swap(q.protocol)))
	if err != nil {
		return 0, err
	}
	bind := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: swap(q.protocol), Ifindex: link.Index})
	all := unix.SetsockoptPacketMreq(socket, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(link.Index), Type: unix.PACKET_MR_ALLMULTI})
	if err := errors.Join(bind, all); err != nil {
		return 0, errors.Join(err, unix.Close(socket))
	}
	return socket, nil
}

func (q question) target(link *net.Interface) *unix.SockaddrLinklayer {
	to := &unix.SockaddrLinklayer{Protocol: swap(q.protocol), Ifindex: link.Index, Halen: 6}
	copy(to.Addr[:], q.to[:])
	return to
}

// await reads packets for one pause.
func await(ctx context.Context, socket int, q question) (bool, error) {
	packet := make([]byte, 1500)
	for end := time.Now().Add(pause); ; {
		left := time.Until(end)
		if left <= 0 {
			return false, nil
		}
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		timeout := unix.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
		if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			return false, err
		}
		n, from, err := unix.Recvfrom(socket, packet, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, err
		}
		if sender, ok := from.(*unix.SockaddrLinklayer); ok && sender.Pkttype != unix.PACKET_OUTGOING && q.isAnswer(packet[:n]) {
			return true, nil
		}
	}
}

// arpQuestion is an ARP probe: a request from 0.0.0.0.
func arpQuestion(own net.HardwareAddr, address netip.Addr) question {
	ip := address.As4()
	packet := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, own...)
	packet = append(packet, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	packet = append(packet, ip[:]...)
	return question{unix.ETH_P_ARP, packet, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, func(p []byte) bool {
		if len(p) < 28 || !bytes.Equal(p[:6], packet[:6]) || bytes.Equal(p[8:14], own) {
			return false
		}
		probing := p[7] == 1 && bytes.Equal(p[14:18], []byte{0, 0, 0, 0}) && bytes.Equal(p[24:28], ip[:])
		return bytes.Equal(p[14:18], ip[:]) || probing
	}}
}

// Types of ICMPv6 messages.
const (
	solicitation  = 135
	advertisement = 136
)

// neighbourQuestion is the solicitation of duplicate address detection: from the unspecified
// address to the solicited-node multicast address.
func neighbourQuestion(address netip.Addr) question {
	ip := address.As16()
	multicast := [16]byte{0xff, 2, 11: 1, 12: 0xff, 13: ip[13], 14: ip[14], 15: ip[15]}
	message := append([]byte{solicitation, 0, 0, 0, 0, 0, 0, 0}, ip[:]...)
	sum := checksum(multicast, message)
	message[2], message[3] = byte(sum>>8), byte(sum)
	packet := append([]byte{0x60, 0, 0, 0, 0, byte(len(message)), unix.IPPROTO_ICMPV6, 255}, make([]byte, 16)...)
	packet = append(append(packet, multicast[:]...), message...)
	return question{unix.ETH_P_IPV6, packet, [6]byte{0x33, 0x33, 0xff, ip[13], ip[14], ip[15]}, func(p []byte) bool {
		if len(p) < 64 || p[6] != unix.IPPROTO_ICMPV6 || p[7] != 255 || !bytes.Equal(p[48:64], ip[:]) {
			return false
		}
		probing := p[40] == solicitation && bytes.Equal(p[8:24], make([]byte, 16))
		return p[40] == advertisement || probing
	}}
}

// checksum is that of an ICMPv6 message from the unspecified address.
func checksum(to [16]byte, message []byte) uint16 {
	text := append(append([]byte{}, to[:]...), message...)
	sum := uint32(len(message) + unix.IPPROTO_ICMPV6)
	for i := 0; i+1 < len(text); i += 2 {
		sum += uint32(text[i])<<8 | uint32(text[i+1])
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// swap returns a number in the order of the network.
func swap(n uint16) uint16 { return n<<8 | n>>8 }
