// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// inVXLAN returns a packet in the VXLAN of the pool for an allocation of a host, from another one of the first host.
func inVXLAN(t testing.TB, h *host, port int, text string) []byte {
	t.Helper()
	return inVXLANFrom(t, "10.60.1.9", h, port, text)
}

func inVXLANFrom(t testing.TB, from string, h *host, port int, text string) []byte {
	t.Helper()
	mac, err := net.ParseMAC(h.endpoint.MAC)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat([]byte{8, 0, 0, 0, 0, 0, 7, 0}, mac, []byte{2, 0, 0, 0, 0, 9, 8, 0}, datagram(from, h.addresses[0], port, text))
}

// datagram returns a packet of UDP.
func datagram(from, to string, port int, text string) []byte {
	udp := binary.BigEndian.AppendUint16(nil, 9)
	for _, n := range []int{port, 8 + len(text), 0} {
		udp = binary.BigEndian.AppendUint16(udp, uint16(n))
	}
	udp = append(udp, text...)
	source, destination := netip.MustParseAddr(from), netip.MustParseAddr(to)
	packet := slices.Concat([]byte{0x45, 0, 0, byte(20 + len(udp)), 0, 0, 0, 0, 64, 17, 0, 0}, source.AsSlice(), destination.AsSlice())
	binary.BigEndian.PutUint16(packet[10:], checksum(packet))
	return slices.Concat(packet, udp)
}

// tunnel makes a tun or tap device on a host, as of a virtual machine, and returns what sends packets by it.
func tunnel(t testing.TB, h *host, name string, mode netlink.TuntapMode, subnet string) (send func(packet []byte)) {
	t.Helper()
	var queue *os.File
	h.do(t, func() error {
		device := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: mode, Flags: unix.IFF_NO_PI | unix.IFF_TUN_EXCL, Queues: 1}
		if err := netlink.LinkAdd(device); err != nil {
			return err
		}
		queue = device.Fds[0]
		if mode == netlink.TUNTAP_MODE_TAP {
			if err := netlink.LinkSetHardwareAddr(device, net.HardwareAddr{2, 0, 0, 0, 7, 1}); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(device)
	})
	t.Cleanup(func() { _ = queue.Close() })
	address(t, h.name, name, subnet)
	var ethernet []byte
	if mode == netlink.TUNTAP_MODE_TAP {
		ethernet = []byte{2, 0, 0, 0, 7, 1, 2, 0, 0, 0, 7, 2, 8, 0}
	}
	return func(packet []byte) {
		if _, err := queue.Write(slices.Concat(ethernet, packet)); err != nil {
			t.Error(err)
		}
	}
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

// asUser is before a command of a user other than root.
var asUser = []string{"setpriv", "--reuid", "65534", "--clear-groups"}

// masquerade has packets leave with the address of a host.
func masquerade(t testing.TB, h *host) {
	t.Helper()
	sandbox.Run(t, "ip", "netns", "exec", h.name, "nft", "add table ip masq; add chain ip masq out { type nat hook postrouting priority 100; }; add rule ip masq out oifname eth0 masquerade")
}

// besideHost makes a namespace with a macvlan that has the host for its gateway, by another macvlan of the
// same parent.
func besideHost(t testing.TB, h *host) {
	t.Helper()
	namespace(t, "beside")
	batch(t, h.name, "link add lan type veth peer name lan1", "link set lan1 up", "link set lan up",
		"link add shim link lan type macvlan mode bridge", "link add beside0 link lan type macvlan mode bridge", "link set beside0 netns beside")
	address(t, h.name, "shim", "10.77.0.1/24")
	address(t, "beside", "beside0", "10.77.0.2/24")
	ip(t, "-n beside route add default via 10.77.0.1")
}

// requireGuarded requires what doctor sees.
func requireGuarded(t testing.TB, h *host, want bool) {
	t.Helper()
	h.do(t, func() error {
		if got, err := route.IsGuarded("net"); err != nil || got != want {
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
	masquerade(t, a)
	next := inbox(t, b, 9000)
	besideHost(t, a)
	by := func(ns string, as ...string) func(data []byte) {
		return func(data []byte) { sendUDP(t, ns, data, "172.31.0.2", vxlanPort, as...) }
	}
	byTunnel := func(mode netlink.TuntapMode, name, from string) func(data []byte) {
		send := tunnel(t, a, name, mode, netip.MustParseAddr(from).Prev().String()+"/24")
		return func(data []byte) { send(datagram(from, "172.31.0.2", vxlanPort, string(data))) }
	}
	for name, test := range map[string]struct {
		send    func(data []byte)
		guarded *host
	}{
		"an allocation": {by("a-alloc"), a},
		"an allocation on a parent that the host has": {by("beside"), a},
		"an allocation behind a tun device":           {byTunnel(netlink.TUNTAP_MODE_TUN, "tun7", "10.78.0.2"), a},
		"an allocation behind a tap device":           {byTunnel(netlink.TUNTAP_MODE_TAP, "tap7", "10.79.0.2"), a},
		"a user of a host":                            {by("a", asUser...), a},
		"another machine":                             {by("router"), b},
	} {
		inject := func(text string) string {
			test.send(inVXLAN(t, b, 9000, text))
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
	damages := []string{"add table inet allocnet-vx-net { flags dormant; }"}
	for _, chain := range []string{"forward", "output", "input", "postrouting"} {
		damages = append(damages, "flush chain inet allocnet-vx-net "+chain)
	}
	for _, damage := range damages {
		sandbox.Run(t, "ip", "netns", "exec", "a", "nft", damage)
		requireGuarded(t, a, false)
		a.apply(t, p, hosts)
		requireGuarded(t, a, true)
	}
	inner := inbox(t, b, vxlanPort)
	sendUDP(t, "a-alloc", []byte("a VXLAN of allocations"), b.addresses[0], vxlanPort)
	if got := inner(); got != "a VXLAN of allocations" {
		t.Errorf("got %q", got)
	}
	sandbox.Run(t, "ip", "netns", "exec", "a", "nft", "delete", "table", "ip", "masq")
	for _, device := range []string{"lan", "tun7", "tap7"} {
		ip(t, "-n a link del %s", device)
	}
	leave(t, hosts, before)
	for _, h := range hosts {
		if rules := sandbox.Run(t, "ip", "netns", "exec", h.name, "nft", "list", "ruleset"); strings.Contains(rules, "allocnet") {
			t.Errorf("%s has\n%s", h.name, rules)
		}
	}
}

// TestUsers: a user of a host other than root reaches the allocations of other hosts, and forges nothing on its own
// host: with IPv6, everyone may send from the address of another host.
func TestUsers(t *testing.T) {
	for name, nodes := range map[string][]string{"IPv4": nil, "IPv6": {"fd31::1", "fd31::2"}} {
		t.Run(name, func(t *testing.T) {
			hosts := newHosts(t, 2)
			p, a, b := pool(ipam.ModeVXLAN), hosts[0], hosts[1]
			for i, address := range nodes {
				hosts[i].endpoint.Address = netip.MustParseAddr(address)
			}
			join(t, p, hosts)
			next := inbox(t, b, 9000)
			// What tells them from forged packets is seen by no rule of others.
			sandbox.Run(t, "ip", "netns", "exec", "a", "nft", "add table inet spy; add chain inet spy out { type filter hook postrouting priority 0; }; add rule inet spy out meta mark != 0 drop")
			for _, family := range []string{"-4", "-6"} {
				ip(t, "-n a %s rule add fwmark 0x20000000/0x20000000 unreachable", family)
			}
			sendUDP(t, "a", []byte("of a user"), b.addresses[0], 9000, asUser...)
			sendUDP(t, "a-alloc", []byte("of an allocation"), b.addresses[0], 9000)
			if got := next(); got != "of a user" {
				t.Errorf("%s arrives, and nothing of a user of the host", got)
			}
			if len(nodes) == 0 {
				return
			}
			next = inbox(t, a, 9000)
			forge := func(text string) string {
				forgeAs(t, a, nodes[1], "fd60::1", inVXLANFrom(t, "10.60.2.9", a, 9000, text))
				sendUDP(t, "b-alloc", []byte("after "+text), a.addresses[0], 9000)
				return next()
			}
			if got := forge("forged"); got != "after forged" {
				t.Errorf("with the guard: %q arrives", got)
			}
			sandbox.Run(t, "ip", "netns", "exec", "a", "nft", "flush", "chain", "inet", "allocnet-vx-net", "output")
			if got := forge("open"); got != "open" {
				t.Errorf("without the guard: %q arrives", got)
			}
		})
	}
}

// forgeAs sends a datagram to the port of the VXLAN as a user other than root, from an address that the host need not have.
func forgeAs(t testing.TB, h *host, from, to string, data []byte) {
	t.Helper()
	h.do(t, func() error {
		_ = unix.Setfsuid(65534) // this thread's, whose socket it is
		defer func() { _ = unix.Setfsuid(0) }()
		socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		err = errors.Join(
			unix.SetsockoptInt(socket, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1),
			unix.Bind(socket, &unix.SockaddrInet6{Addr: netip.MustParseAddr(from).As16()}),
		)
		_ = unix.Sendto(socket, data, 0, &unix.SockaddrInet6{Addr: netip.MustParseAddr(to).As16(), Port: vxlanPort}) // it is told that this is dropped
		return err
	})
}

// TestShadowed: an allocation does not get the packets of others in the VXLAN as answers to packets that it has sent
// from the port to all ports of another host, with the address of its own host.
func TestShadowed(t *testing.T) {
	hosts := newHosts(t, 2)
	a := hosts[0]
	join(t, pool(ipam.ModeVXLAN), hosts)
	masquerade(t, a)
	var shadow *net.UDPConn
	if err := a.inside.Do(func() (err error) {
		shadow, err = net.ListenUDP("udp4", &net.UDPAddr{Port: vxlanPort})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer shadow.Close()
	next := inbox(t, a, 9000)
	isShadowed := func() (is bool) {
		for port := 32768; port < 61000; port++ {
			if port%256 == 0 { // else the queue of the host is full, and most packets are lost
				time.Sleep(2 * time.Millisecond)
			}
			_, _ = shadow.WriteTo(nil, &net.UDPAddr{IP: net.IPv4(172, 31, 0, 2), Port: port}) // who sends may be told that none listens
		}
		sendUDP(t, "b-alloc", []byte("a secret"), a.addresses[0], 9000)
		sendUDP(t, "a", []byte("after"), a.addresses[0], 9000)
		if is = next() == "after"; !is {
			_ = next()
		}
		return is
	}
	if isShadowed() {
		t.Error("with the guard, the allocation does not get the packet")
	}
	for _, chain := range []string{"forward", "postrouting"} {
		sandbox.Run(t, "ip", "netns", "exec", "a", "nft", "flush", "chain", "inet", "allocnet-vx-net", chain)
	}
	sandbox.Eventually(t, "without the guard, another one gets the packet", isShadowed)
}
