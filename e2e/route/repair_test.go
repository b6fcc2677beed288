// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// tables are what the host has of the pool, as text.
func (h *host) tables(t testing.TB) string {
	t.Helper()
	text := ip(t, "-n %s route show proto 172", h.name) + ip(t, "-n %s -6 route show proto 172", h.name) +
		ip(t, "-n %s neighbour show nud permanent", h.name) + ip(t, "-n %s -d -o link show type vxlan", h.name) +
		ip(t, "-n %s address show type vxlan", h.name)
	fdb, err := exec.Command("bridge", "-n", h.name, "fdb", "show").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text+string(fdb), "\n")
	for i, line := range lines { // an interface that is made again has another index, and what links lead to it
		if _, rest, ok := strings.Cut(line, ": vx-net"); ok {
			lines[i] = rest
		}
	}
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.Contains(line, " 33:33:") || strings.Contains(line, " 01:00:5e")
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// changes returns the events about routes of ours while do is done, as text.
func (h *host) changes(t testing.TB, do func()) []string {
	t.Helper()
	updates, done := make(chan netlink.RouteUpdate, 10_000), make(chan struct{})
	defer close(done)
	h.do(t, func() error {
		return netlink.RouteSubscribeWithOptions(updates, done, netlink.RouteSubscribeOptions{})
	})
	do()
	ip(t, "-n %s route add 192.0.2.0/24 dev lo", h.name) // the last event
	ip(t, "-n %s route del 192.0.2.0/24 dev lo", h.name)
	var seen []string
	for u := range updates {
		if u.Dst.String() == "192.0.2.0/24" {
			return seen
		}
		if u.Protocol == route.Protocol {
			seen = append(seen, map[uint16]string{unix.RTM_NEWROUTE: "new ", unix.RTM_DELROUTE: "gone "}[u.Type]+u.Dst.String())
		}
	}
	return seen
}

// TestRepair: what other programs change is changed back at the next call, without touching the
// routes that are right.
func TestRepair(t *testing.T) {
	const mac = "aa:aa:aa:aa:aa:aa"
	hosts := newHosts(t, 3)
	p, a := pool(ipam.ModeAuto), hosts[0]
	before := states(t, hosts)
	join(t, p, hosts)
	want := a.tables(t)
	overlay := []string{"new 10.60.3.0/26", "new fd60::300/122"}
	for _, test := range []struct {
		name    string
		spoil   []string
		changes []string
	}{
		{"nothing", nil, nil},
		{"routes flushed", []string{"route flush proto 172", "-6 route flush proto 172"}, append([]string{"new 10.60.0.0/16", "new 10.60.2.0/26", "new fd60::/112", "new fd60::200/122"}, overlay...)},
		{"a route deleted", []string{"route del 10.60.2.0/26"}, []string{"new 10.60.2.0/26"}},
		{"a next hop changed", []string{"route change 10.60.2.0/26 via 172.31.0.254 proto 172"}, []string{"new 10.60.2.0/26", "gone 10.60.2.0/26"}},
		{"another metric", []string{"route add 10.60.2.0/26 via 172.31.0.254 proto 172 metric 50"}, []string{"gone 10.60.2.0/26"}},
		{"a stale route", []string{"route add 10.60.9.0/26 via 172.31.0.254 proto 172"}, []string{"gone 10.60.9.0/26"}},
		{"device deleted", []string{"link del vx-net"}, overlay},
		{"device down", []string{"link set vx-net down"}, overlay},
		{"device renamed", []string{"link set vx-net down", "link set vx-net name vx-0"}, overlay},
		{"another device", []string{"link del vx-net", "link add vx-net type vxlan id 9 dstport 4790 local 172.31.0.1", "link set vx-net alias allocnet\x00pool\x00net"}, overlay},
		{"learning", []string{"link set vx-net type vxlan learning"}, append(slices.Clone(overlay), "gone fd60::300/122")}, // of IPv4, the kernel does not tell
		{"made by a killed process", []string{"link del vx-net", "link add vx-net address MAC group 1634495599 type vxlan id 7 dstport 4789 local 172.31.0.1 nolearning"}, overlay},
		{"MAC changed", []string{"link set vx-net address " + mac}, nil},
		{"MTU changed", []string{"link set vx-net mtu 1400"}, nil},
		{"no address", []string{"-6 address flush dev vx-net"}, nil},
		{"no IPv4 address", []string{"-4 address flush dev vx-net"}, overlay[:1]}, // the kernel removes the routes with the last address
		{"rp_filter", []string{"netns exec a sysctl -qw net.ipv4.conf.vx-net.rp_filter=1"}, nil},
		{"router advertisements", []string{"netns exec a sysctl -qw net.ipv6.conf.vx-net.accept_ra=1"}, nil},
		{"IPv6 redirects", []string{"netns exec a sysctl -qw net.ipv6.conf.vx-net.accept_redirects=1"}, nil},
		{"IPv4 redirects", []string{"netns exec a sysctl -qw net.ipv4.conf.vx-net.accept_redirects=1"}, nil},
		{"IPv6 off", []string{"netns exec a sysctl -qw net.ipv6.conf.vx-net.disable_ipv6=1"}, overlay[1:]},
		{"own address removed for a moment", []string{"address del 172.31.0.1/24 dev eth0", "address add 172.31.0.1/24 dev eth0", "route add default via 172.31.0.254"}, []string{"new 10.60.2.0/26", "new 10.60.3.0/26"}},
		{"neighbours flushed", []string{"neighbour flush dev vx-net nud permanent", "-6 neighbour flush dev vx-net nud permanent"}, nil},
		{"neighbour changed", []string{"neighbour replace 172.31.1.3 lladdr " + mac + " dev vx-net nud permanent"}, nil},
		{"neighbour learned", []string{"neighbour replace 172.31.1.3 lladdr " + mac + " dev vx-net nud stale"}, nil},
		{"another neighbour", []string{"neighbour add 172.31.1.9 lladdr " + mac + " dev vx-net nud permanent"}, nil},
		{"forwarding flushed", []string{"bridge fdb flush dev vx-net"}, nil},
		{"forwarding changed", []string{"bridge fdb replace MACC dev vx-net dst 172.31.0.2 self permanent"}, nil},
		{"flooding", []string{"bridge fdb append 00:00:00:00:00:00 dev vx-net dst 172.31.0.2 self permanent", "bridge fdb append MACC dev vx-net dst 172.31.0.2 self permanent"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, command := range test.spoil {
				spoil(t, a, strings.NewReplacer("MACC", hosts[2].endpoint.MAC, "MAC", a.endpoint.MAC).Replace(command))
			}
			changes := a.changes(t, func() {
				for _, r := range a.apply(t, p, hosts).Routes {
					if r.State != route.Installed {
						t.Errorf("%+v", r)
					}
				}
			})
			slices.Sort(changes)
			slices.Sort(test.changes)
			if !slices.Equal(changes, test.changes) {
				t.Errorf("changes of routes %q, want %q", changes, test.changes)
			}
			if have := a.tables(t); have != want {
				t.Errorf("want:\n%s\nhave:\n%s", want, have)
			}
			if err := send(a, hosts[2].addresses[0], 1000); err != nil {
				t.Error(err)
			}
			if again := a.apply(t, p, hosts); again.Added+again.Replaced+again.Removed != 0 {
				t.Errorf("the second time: %+v", again)
			}
		})
	}
	leave(t, hosts, before)
}

// spoil runs ip or bridge in the host's namespace. A zero byte stands for a space in a word.
func spoil(t testing.TB, h *host, command string) {
	t.Helper()
	words := strings.Fields(command)
	switch words[0] {
	case "bridge":
		words = append([]string{"bridge", "-n", h.name}, words[1:]...)
	case "netns":
		words = append([]string{"ip"}, words...)
	default:
		words = append([]string{"ip", "-n", h.name}, words...)
	}
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "\x00", " ")
	}
	sandbox.Run(t, words...)
}

// TestForeign: routes and interfaces of others stay, and are reported.
func TestForeign(t *testing.T) {
	hosts := newHosts(t, 3)
	p, a := pool(ipam.ModeAuto), hosts[0]
	for _, command := range []string{
		"link add vx-net type bridge", "route add 10.60.2.0/26 via 172.31.0.254 metric 77 proto static", "-6 route add fd60::200/122 via fd31::fe proto bird",
		"route add 10.60.9.0/26 via 172.31.0.254", "route add 10.60.2.0/26 dev eth0 table 99 proto 172", "link add other type vxlan id 99 dstport 4799",
	} {
		spoil(t, a, command)
	}
	before := states(t, hosts)
	for _, h := range hosts[1:] {
		h.device(t, p)
	}
	var report route.Report
	err := a.ns.Do(func() (err error) {
		if _, _, err := a.table.Device(p, a.endpoint); err == nil {
			t.Error("the device of others was taken")
		}
		report, err = a.table.Apply(p, a.blocks, a.targets(hosts))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), `vx-net is an interface of the kind "bridge"`) {
		t.Error(err)
	}
	for _, r := range report.Routes {
		if want := map[string]route.State{"b": route.Conflict, "c": route.Failed}[r.Node]; r.State != want {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	a.do(t, a.table.RemoveAll)
	leave(t, hosts, before)
}

// TestMovedBlock: a block whose owner changes has a route all the time, and one that this host claims
// has none. Nothing is left of a host that is gone.
func TestMovedBlock(t *testing.T) {
	hosts := newHosts(t, 3)
	p, a := pool(ipam.ModeVXLAN), hosts[0]
	join(t, p, hosts)
	apply := func(own []netip.Prefix, targets ...route.Target) {
		a.do(t, func() error {
			_, err := a.table.Apply(p, own, targets)
			return err
		})
	}
	b, c := hosts[1], hosts[2]
	moved := []route.Target{{Block: b.blocks[0], Node: "c", Endpoint: c.endpoint}, {Block: b.blocks[1], Node: "c", Endpoint: c.endpoint}}
	changes := a.changes(t, func() { apply(a.blocks, moved...) })
	want := []string{"new " + b.blocks[0].String(), "gone " + b.blocks[0].String(), "new " + b.blocks[1].String(), "gone " + b.blocks[1].String(), "gone " + c.blocks[0].String(), "gone " + c.blocks[1].String()}
	if !slices.Equal(changes, want) {
		t.Errorf("%q, want %q", changes, want)
	}
	if text := a.tables(t); strings.Contains(text, b.endpoint.MAC) || strings.Contains(text, "via "+b.endpoint.Address.String()) {
		t.Errorf("of the host that is gone:\n%s", text)
	}
	apply(append(slices.Clone(a.blocks), b.blocks...), moved...)
	if text := a.tables(t); strings.Contains(text, b.blocks[0].String()) || strings.Contains(text, b.blocks[1].String()) {
		t.Errorf("routes to own blocks:\n%s", text)
	}
}

// TestReplacedNode: a machine with the address of another one is reached at once, although the blocks of
// that one are in the store for a day. A host that has lost its state directory is one, too: what it
// runs is reached all the time.
func TestReplacedNode(t *testing.T) {
	for _, mode := range []ipam.Mode{ipam.ModeVXLAN, ipam.ModeRouted} {
		t.Run(string(mode), func(t *testing.T) {
			hosts := newHosts(t, 2)
			p, a, b := pool(mode), hosts[0], hosts[1]
			join(t, p, hosts)
			old := a.targets(hosts)
			b.table = route.New(route.Options{Dir: t.TempDir()})
			b.device(t, p)
			claimed := netip.MustParsePrefix("10.60.77.0/26")
			ip(t, "-n b route add 10.60.77.7 dev alloc0")
			ip(t, "-n b-alloc address add 10.60.77.7/32 dev eth0")
			echo(t, b.inside, "10.60.77.7")
			apply := func(h *host, own []netip.Prefix, targets []route.Target) {
				h.do(t, func() error {
					_, err := h.table.Apply(p, own, targets)
					return err
				})
			}
			apply(a, a.blocks, append([]route.Target{{Block: claimed, Node: "b again", Endpoint: b.endpoint}}, old...))
			apply(b, []netip.Prefix{claimed}, append(b.targets(hosts), old...))
			for _, address := range append([]string{"10.60.77.7"}, b.addresses...) {
				if err := send(a, address, 1000); err != nil {
					t.Errorf("%s: %v", address, err)
				}
			}
		})
	}
}

// TestForeignNextHop: a route that another program adds for a block, with the metric of ours, is for IPv6 one
// more next hop of our route. It stays, and ours goes.
func TestForeignNextHop(t *testing.T) {
	hosts := newHosts(t, 2)
	p, a := pool(ipam.ModeRouted), hosts[0]
	join(t, p, hosts)
	before := a.tables(t)
	routes := func() string { return ip(t, "-n a -6 -N route show fd60::200/122") }
	for name, commands := range map[string][]string{
		"after ours":      {"-6 route append fd60::200/122 via fd31::fe proto 99"},
		"instead of ours": {"-6 route del fd60::200/122", "-6 route add fd60::200/122 via fd31::fe proto 99", "-6 route append fd60::200/122 via fd31::fd proto 99"},
		"with our number": {"-6 route append fd60::200/122 via fd31::fe proto 172"},
	} {
		for _, command := range commands {
			spoil(t, a, command)
		}
		report := a.apply(t, p, hosts)
		if r := report.Routes[1]; r.State != route.Conflict || !strings.Contains(r.Reason, "fd60::200/122 via fd31::fe dev eth0") {
			t.Errorf("%s: %+v", name, r)
		}
		if left := routes(); !strings.Contains(left, "via fd31::fe dev eth0") || strings.Contains(left, hosts[1].endpoint.LinkLocal.String()) {
			t.Errorf("%s: %s", name, left)
		}
		if again := a.apply(t, p, hosts); name != "with our number" && again.Added+again.Replaced+again.Removed != 0 {
			t.Errorf("%s, the second time: %+v", name, again)
		}
		if name != "with our number" { // the second time it is known to be a stale one of ours
			spoil(t, a, "-6 route flush fd60::200/122")
			a.apply(t, p, hosts)
		}
		if after := a.tables(t); after != before {
			t.Errorf("%s, then:\n%s\nbefore:\n%s", name, after, before)
		}
	}
}
