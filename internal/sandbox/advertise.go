// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

// Advertise sends an IPv6 router advertisement through an interface of a namespace: the
// router is the default one for half an hour, and has a prefix of 64 bits.
func Advertise(path, iface string, prefix netip.Addr) error {
	return insideNamespace(path, func() error {
		link, err := net.InterfaceByName(iface)
		if err != nil {
			return err
		}
		socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		if err != nil {
			return err
		}
		defer unix.Close(socket) //nolint:errcheck // the packet is sent
		if err := unix.SetsockoptInt(socket, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255); err != nil {
			return err
		}
		all := netip.MustParseAddr("ff02::1").As16()
		return unix.Sendto(socket, advertisement(prefix), 0, &unix.SockaddrInet6{Addr: all, ZoneId: uint32(link.Index)})
	})
}

// advertisement is that of RFC 4861, section 4.2; the kernel adds the checksum.
func advertisement(prefix netip.Addr) []byte {
	packet := []byte{134, 0, 0, 0, 64, 0}
	packet = binary.BigEndian.AppendUint16(packet, 1800)
	packet = append(packet, make([]byte, 8)...)          // reachable time and retransmission timer are unspecified
	packet = append(packet, 3, 4, 64, 0xc0)              // prefix information: on link, for addresses
	packet = binary.BigEndian.AppendUint32(packet, 3600) // valid
	packet = binary.BigEndian.AppendUint32(packet, 1800) // preferred
	packet = append(packet, 0, 0, 0, 0)
	return append(packet, prefix.AsSlice()...)
}

// AwaitAdvertised sends router advertisements until the namespace at another path has
// received two more.
func AwaitAdvertised(t testing.TB, router, iface string, prefix netip.Addr, receiver string) {
	t.Helper()
	before := receivedAdvertisements(t, receiver)
	Eventually(t, receiver+" receives router advertisements", func() bool {
		if err := Advertise(router, iface, prefix); err != nil {
			t.Log(err) // the address of the router is not ready
		}
		return receivedAdvertisements(t, receiver) >= before+2
	})
}

func receivedAdvertisements(t testing.TB, path string) (count int) {
	t.Helper()
	var data []byte
	err := insideNamespace(path, func() (err error) {
		data, err = os.ReadFile("/proc/thread-self/net/snmp6")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const counter = "Icmp6InRouterAdvertisements"
	_, rest, _ := strings.Cut(string(data), counter)
	if _, err := fmt.Sscan(rest, &count); err != nil {
		t.Fatalf("read %s: %v", counter, err)
	}
	return count
}

func insideNamespace(path string, do func() error) error {
	ns, err := netns.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // read only
	return ns.Do(do)
}
