// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/ipam"
	"github.com/allocnet/allocnet/route"
)

// inVXLAN returns a packet in the VXLAN of the pool for an allocation of a host, from another one of the first host.
func inVXLAN(t testing.TB, h *host, port int, text string) []byte {
	t.Helper()
	mac, err := net.ParseMAC(h.endpoint.MAC)
	if err != nil {
		t.Fatal(err)
	}
	udp := binary.BigEndian.AppendUint16(nil, 9)
	for _, n := range []int{port, 8 + len(text), 0} {
		udp = binary.BigEndian.AppendUint16(udp, uint16(n))
	}
	udp = append(udp, text...)
	source, destination := netip.MustParseAddr("10.60.1.9"), netip.MustParseAddr(h.addresses[0])
	packet := slices.Concat([]byte{0x45, 0, 0, byte(20 + len(udp)), 0, 0, 0, 0, 64, 17, 0, 0}, source.AsSlice(), destination.AsSlice())
	binary.BigEndian.PutUint16(packet[10:], checksum(packet))
	return slices.Concat([]byte{8, 0, 0, 0, 0, 0, 7, 0}, mac, []byte{2, 0, 0, 0, 0, 9, 8, 0}, packet, udp)
}

// sendUDP sends a datagram from a namespace, by a command that may be for another user.
func sendUDP(t testing.TB, ns string, data []byte, to string, port int, as ...string) {
	t.Helper()
	cmd := exec.Command("ip", slices.Concat([]string{"netns", "exec", ns}, as, []string{"bash", "-c", fmt.Sprintf("cat >/dev/udp/%s/%d", to, port)})...)
	cmd.Stdin = bytes.NewReader(data)
	_, _ = cmd.CombinedOutput() // who sends may be told that it is dropped
}

// inbox gets datagrams to a port of an allocation.
func inbox(t testing.TB, h *host, port int) (next func() string) {
	t.Helper()
	var conn net.PacketConn
	if err := h.inside.Do(func() (err error) {
		conn, err = net.ListenPacket("udp4", fmt.Sprintf("%s:%d", h.addresses[0], port))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func() string {
		buffer := make([]byte, 1500)
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
}

const vxlanPort = 4789

// requireGuarded requires what doctor sees.
func requireGuarded(t testing.TB, h *host, want bool) {
	t.Helper()
	h.do(t, func() error {
		if got, err := route.IsGuarded("vx-net"); err != nil || got != want {
			t.Errorf("%s is guarded: %t, %v, want %t", h.name, got, err, want)
		}
		return nil
	})
}

// TestInjection: only hosts of the pool send into its VXLAN: not an allocation, whose packets
// leave with the address of its host, nor a user of the host, nor a machine that is no host of the pool. What is
// dropped without the guard alone is no proof, so each is sent without it first.
func TestInjection(t *testing.T) {
	hosts := newHosts(t, 3)
	p, a, b := pool(ipam.ModeVXLAN), hosts[0], hosts[1]
	before := states(t, hosts)
	join(t, p, hosts)
	sandbox.Run(t, "ip", "netns", "exec", "a", "nft", "add table ip masq; add chain ip masq out { type nat hook postrouting priority 100; }; add rule ip masq out oifname eth0 masquerade")
	next := inbox(t, b, 9000)
	for name, test := range map[string]struct {
		ns      string
		as      []string
		guarded *host
	}{
		"an allocation":    {"a-alloc", nil, a},
		"a user of a host": {"a", []string{"setpriv", "--reuid", "65534", "--clear-groups"}, a},
		"another machine":  {"router", nil, b},
	} {
		inject := func(text string) string {
			sendUDP(t, test.ns, inVXLAN(t, b, 9000, text), "172.31.0.2", vxlanPort, test.as...)
			sendUDP(t, "a-alloc", []byte("after "+text), b.addresses[0], 9000)
			return next()
		}
		sandbox.Run(t, "ip", "netns", "exec", test.guarded.name, "nft", "delete", "table", "inet", "allocnet-vx-net")
		if got := inject("open"); got != "open" {
			t.Errorf("%s, without the guard: %q arrives", name, got)
		} else {
			next()
		}
		if report := test.guarded.apply(t, p, hosts); report.Replaced != 1 || report.Unguarded != nil {
			t.Errorf("the guard is not made again: %+v", report)
		}
		if got := inject("forged"); got != "after forged" {
			t.Errorf("%s, with the guard: %q arrives", name, got)
		}
	}
	requireTraffic(t, hosts, 1400)
	requireGuarded(t, a, true)
	sandbox.Run(t, "ip", "netns", "exec", "a", "nft", "flush", "chain", "inet", "allocnet-vx-net", "forward")
	requireGuarded(t, a, false)
	a.apply(t, p, hosts)
	requireGuarded(t, a, true)
	inner := inbox(t, b, vxlanPort)
	sendUDP(t, "a-alloc", []byte("a VXLAN of allocations"), b.addresses[0], vxlanPort)
	if got := inner(); got != "a VXLAN of allocations" {
		t.Errorf("got %q", got)
	}
	sandbox.Run(t, "ip", "netns", "exec", "a", "nft", "delete", "table", "ip", "masq")
	leave(t, hosts, before)
	for _, h := range hosts {
		if rules := sandbox.Run(t, "ip", "netns", "exec", h.name, "nft", "list", "ruleset"); strings.Contains(rules, "allocnet") {
			t.Errorf("%s has\n%s", h.name, rules)
		}
	}
}
