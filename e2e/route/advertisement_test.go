// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// advertisement is a router advertisement (RFC 4861, 4.2) with a prefix, in a frame to all hosts.
func advertisement() []byte {
	source, target := netip.MustParseAddr("fe80::bad").AsSlice(), netip.MustParseAddr("ff02::1").AsSlice()
	mac := []byte{2, 0, 0, 0, 0, 9}
	icmp := []byte{134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0}
	icmp = append(icmp, 3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 14, 16, 0, 0, 0, 0)
	icmp = append(icmp, netip.MustParseAddr("2001:db8:bad::").AsSlice()...)
	icmp = slices.Concat(icmp, []byte{1, 1}, mac)
	binary.BigEndian.PutUint16(icmp[2:], checksum(slices.Concat(source, target, []byte{0, 0, 0, byte(len(icmp)), 0, 0, 0, 58}, icmp)))
	header := []byte{0x60, 0, 0, 0, 0, byte(len(icmp)), 58, 255}
	return slices.Concat([]byte{0x33, 0x33, 0, 0, 0, 1}, mac, []byte{0x86, 0xdd}, header, source, target, icmp)
}

// checksum is that of RFC 1071.
func checksum(data []byte) uint16 {
	sum := uint32(0)
	for pair := range slices.Chunk(data, 2) {
		sum += uint32(binary.BigEndian.Uint16(pair))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// TestRouterAdvertisement: a host sends a router advertisement in the VXLAN to another one. That
// learns no route and no address.
func TestRouterAdvertisement(t *testing.T) {
	hosts := newHosts(t, 2)
	a, b := hosts[0], hosts[1]
	sysctl(t, "a", "net.ipv6.conf.all.forwarding=0", "net.ipv6.conf.default.forwarding=0")
	p := pool(ipam.ModeVXLAN)
	join(t, p, hosts)
	before := ip(t, "-n a -6 route show table all dev vx-net") + ip(t, "-n a -6 -brief address show dev vx-net")
	err := b.ns.Do(func() error {
		conn, err := net.Dial("udp", "172.31.0.1:4789")
		if err != nil {
			return err
		}
		defer conn.Close() // it has been written
		for range 2 {
			if _, err := conn.Write(append([]byte{8, 0, 0, 0, 0, 0, byte(p.VXLAN.ID), 0}, advertisement()...)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for packets(t, "a", "vx-net") < 2 {
		time.Sleep(10 * time.Millisecond) // the test's deadline ends it
	}
	if after := ip(t, "-n a -6 route show table all dev vx-net") + ip(t, "-n a -6 -brief address show dev vx-net"); after != before {
		t.Errorf("after a router advertisement:\n%swant\n%s", after, before)
	}
	if learned := ip(t, "-n a -6 route show default proto ra"); learned != "" {
		t.Errorf("learned %s", learned)
	}
	if report := a.apply(t, p, hosts); report.Added+report.Replaced+report.Removed > 0 {
		t.Errorf("repaired %+v", report)
	}
}

// packets is how many a device has received.
func packets(t *testing.T, ns, device string) int {
	t.Helper()
	count, err := strconv.Atoi(strings.TrimSpace(ip(t, "netns exec %s cat /sys/class/net/%s/statistics/rx_packets", ns, device)))
	if err != nil {
		t.Fatal(err)
	}
	return count
}
