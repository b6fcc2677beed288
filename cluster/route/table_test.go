// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// What others wrote to the store as their MACs; any will do.
const (
	macB = "02:00:00:00:00:0b"
	macC = "02:00:00:00:00:0c"
)

// deviceOf replaces the names of an address's MAC and link-local address in a text.
func deviceOf(address, text string) string {
	mac := deviceMAC(ip(address), "net")
	return strings.NewReplacer("MAC", mac, "LINKLOCAL", linkLocalOf(mac).String()).Replace(text)
}

func testPool(mode ipam.Mode) Pool {
	return Pool{
		Name: "net", Mode: mode, Subnets: []netip.Prefix{cidr("10.60.0.0/16"), cidr("fd60::/112")},
		BlockSize: ipam.BlockSize{IPv4: 26, IPv6: 122}, Gateways: []netip.Addr{ip("10.60.0.1"), ip("fd60::1")},
		VXLAN: ipam.VXLAN{ID: 7, Port: 4789},
	}
}

var local = ipam.Endpoint{Address: ip("192.0.2.1"), LinkLocal: ip("fe80::1")}

// to is a target of a node whose address ends in the number.
func to(block, node, address, mac string) Target {
	return Target{Block: cidr(block), Node: node, Endpoint: ipam.Endpoint{Address: ip(address), LinkLocal: ip("fe80::2"), MAC: mac}}
}

// start returns a table whose device is made.
func start(t *testing.T, f *fake, p Pool) *Table {
	t.Helper()
	table := newTable(Options{Dir: t.TempDir()}, f)
	if _, _, err := table.Device(p, local); err != nil {
		t.Fatal(err)
	}
	return table
}

func apply(t *testing.T, table *Table, p Pool, targets ...Target) Report {
	t.Helper()
	report, err := table.Apply(p, nil, targets)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func requireState(t *testing.T, f *fake, want string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(want), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	slices.Sort(lines)
	if diff := gocmp.Diff(strings.Join(lines, "\n"), f.state()); diff != "" {
		t.Errorf("the kernel has (-want +got):\n%s", diff)
	}
}

var behindRouter = hop{device: "eth0", gateway: ip("192.0.2.254")}

// TestModes: what the kernel has in each mode, for a node on the link and one behind a router.
func TestModes(t *testing.T) {
	targets := []Target{
		to("10.60.1.0/26", "b", "192.0.2.2", macB), to("10.60.2.0/26", "c", "198.51.100.3", macC),
		to("fd60::40/122", "b", "192.0.2.2", macB), to("fd60::80/122", "c", "198.51.100.3", macC),
	}
	const unclaimed = "route unreachable 10.60.0.0/16 metric 4278198272\nroute unreachable fd60::/112 metric 4278198272\n"
	const direct = "route 10.60.1.0/26 via 192.0.2.2 dev eth0\nroute fd60::40/122 via fe80::2 dev eth0\n"
	vxlan := "device vx-net mtu 1450 " + deviceMAC(local.Address, "net") + " local 192.0.2.1 id 7 port 4789\n"
	overlayC := deviceOf("198.51.100.3", `forwarding of MAC to 198.51.100.3 dev vx-net
		neighbour 198.51.100.3 MAC dev vx-net
		neighbour LINKLOCAL MAC dev vx-net
		route 10.60.2.0/26 via 198.51.100.3 dev vx-net
		route fd60::80/122 via LINKLOCAL dev vx-net
		`)
	overlayB := deviceOf("192.0.2.2", `forwarding of MAC to 192.0.2.2 dev vx-net
		neighbour 192.0.2.2 MAC dev vx-net
		neighbour LINKLOCAL MAC dev vx-net
		route 10.60.1.0/26 via 192.0.2.2 dev vx-net
		route fd60::40/122 via LINKLOCAL dev vx-net
		`)
	for mode, test := range map[ipam.Mode]struct {
		states []State
		want   string
	}{
		ipam.ModeRouted: {[]State{Installed, Refused, Installed, Refused}, unclaimed + direct},
		ipam.ModeVXLAN:  {[]State{Installed, Installed, Installed, Installed}, unclaimed + vxlan + overlayB + overlayC},
		ipam.ModeAuto:   {[]State{Installed, Installed, Installed, Installed}, unclaimed + vxlan + direct + overlayC},
	} {
		t.Run(string(mode), func(t *testing.T) {
			f, p := newFake(), testPool(mode)
			f.hops[ip("198.51.100.3")] = behindRouter
			table := start(t, f, p)
			for i, r := range apply(t, table, p, targets...).Routes {
				if r.State != test.states[i] || (r.Reason == "") != (r.State == Installed) {
					t.Errorf("%+v, want %s", r, test.states[i])
				}
			}
			requireState(t, f, test.want)
			if again := apply(t, table, p, targets...); again.Added+again.Replaced+again.Removed != 0 {
				t.Errorf("the second time: %+v", again)
			}
			before := newFake()
			if err := table.Remove(p); err != nil || f.state() != "" || f.foreignState() != before.foreignState() {
				t.Errorf("left, %v:\n%s", err, f.state())
			}
			if files, err := os.ReadDir(table.o.Dir); err != nil || len(files) != 0 {
				t.Errorf("records left: %v, %v", files, err)
			}
		})
	}
}

// TestTunnel: a node that is reached through a tunnel is not on the link: the tunnel may drop packets that are not
// for the node. Who selects the mode routed has to know.
func TestTunnel(t *testing.T) {
	for mode, want := range map[ipam.Mode]Route{
		ipam.ModeAuto:   {Via: ip("192.0.2.2"), Device: "vx-net", Mode: ipam.ModeVXLAN},
		ipam.ModeRouted: {Via: ip("192.0.2.2"), Device: "wg0", Mode: ipam.ModeRouted},
	} {
		f, p := newFake(), testPool(mode)
		f.links = append(f.links, link{device: device{name: "wg0", up: true, mtu: 1420}, kind: "wireguard", index: 3, hasEnd: true})
		f.hops[ip("192.0.2.2")] = hop{device: "wg0"}
		want.Block, want.Node, want.State = cidr("10.60.1.0/26"), "b", Installed
		if got := apply(t, start(t, f, p), p, to("10.60.1.0/26", "b", "192.0.2.2", macB)).Routes[0]; got != want {
			t.Errorf("%s: %+v, want %+v", mode, got, want)
		}
	}
}

// TestSource: a host's own packets into the VXLAN have its address on the underlay, the lowest if that is
// of the other family, and never one that all hosts have.
func TestSource(t *testing.T) {
	targets := []Target{to("10.60.1.0/26", "b", "192.0.2.2", macB), to("fd60::40/122", "b", "192.0.2.2", macB)}
	for name, test := range map[string]struct {
		mode      ipam.Mode
		addresses []address
		want      []netip.Addr
	}{
		"routed":      {ipam.ModeRouted, nil, []netip.Addr{{}, {}}},
		"both":        {ipam.ModeVXLAN, nil, []netip.Addr{ip("192.0.2.1"), ip("2001:db8::1")}},
		"several":     {ipam.ModeVXLAN, []address{{ip("2001:db8::"), "eth0", false}, {ip("2001:db8::9"), "eth0", true}, {ip("192.0.2.0"), "eth0", true}}, []netip.Addr{ip("192.0.2.1"), ip("2001:db8::1")}},
		"the gateway": {ipam.ModeVXLAN, []address{{ip("10.60.0.1"), "alloc0", true}, {ip("fd60::1"), "alloc0", true}}, []netip.Addr{ip("192.0.2.1"), ip("2001:db8::1")}},
	} {
		f, p := newFake(), testPool(test.mode)
		f.addresses = append(f.addresses, test.addresses...)
		apply(t, start(t, f, p), p, targets...)
		for i, target := range targets {
			if at := slices.IndexFunc(f.routes, func(e entry) bool { return e.prefix == target.Block }); f.routes[at].source != test.want[i] {
				t.Errorf("%s: %+v, want %s", name, f.routes[at], test.want[i])
			}
		}
	}
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	f.addresses = f.addresses[:2]
	apply(t, start(t, f, p), p, targets...)
	if at := slices.IndexFunc(f.routes, func(e entry) bool { return e.prefix == targets[1].Block }); f.routes[at].source.IsValid() {
		t.Errorf("without an IPv6 address: %+v", f.routes[at])
	}
}

// TestIPv6Underlay: IPv4 blocks have IPv6 next hops.
func TestIPv6Underlay(t *testing.T) {
	for mode, want := range map[ipam.Mode]string{
		ipam.ModeRouted: "route 10.60.1.0/26 via 2001:db8::2 dev eth0\nroute fd60::40/122 via 2001:db8::2 dev eth0",
		ipam.ModeVXLAN:  deviceOf("2001:db8::2", "route 10.60.1.0/26 via LINKLOCAL dev vx-net\nroute fd60::40/122 via LINKLOCAL dev vx-net"),
	} {
		f, p := newFake(), testPool(mode)
		table := newTable(Options{Dir: t.TempDir()}, f)
		_, mtu, err := table.Device(p, ipam.Endpoint{Address: ip("2001:db8::1")})
		if wantMTU := map[ipam.Mode]int{ipam.ModeRouted: 1500, ipam.ModeVXLAN: 1430}[mode]; err != nil || mtu != wantMTU {
			t.Errorf("%s: MTU %d, error %v, want %d", mode, mtu, err, wantMTU)
		}
		apply(t, table, p, to("10.60.1.0/26", "b", "2001:db8::2", macB), to("fd60::40/122", "b", "2001:db8::2", macB))
		for line := range strings.Lines(want) {
			if !strings.Contains(f.state(), strings.TrimSpace(line)) {
				t.Errorf("%s: want %s in\n%s", mode, line, f.state())
			}
		}
	}
}

// TestRefusedTargets: what another host writes does not divert what is this host's.
func TestRefusedTargets(t *testing.T) {
	const blockB = "10.60.1.0/26"
	edit := func(change func(*Target)) Target {
		target := to(blockB, "b", "192.0.2.2", macB)
		change(&target)
		return target
	}
	for name, test := range map[string]struct {
		target Target
		mode   ipam.Mode
		reason string
	}{
		"no block":                 {edit(func(t *Target) { t.Block = netip.Prefix{} }), ipam.ModeRouted, "not in the subnets"},
		"outside of the pool":      {to("10.61.1.0/26", "b", "192.0.2.2", macB), ipam.ModeRouted, "not in the subnets"},
		"the default route":        {to("0.0.0.0/0", "b", "192.0.2.2", macB), ipam.ModeRouted, "not in the subnets"},
		"larger than the subnet":   {to("10.0.0.0/8", "b", "192.0.2.2", macB), ipam.ModeRouted, "not in the subnets"},
		"the whole pool":           {to("10.60.0.0/16", "b", "192.0.2.2", macB), ipam.ModeRouted, "no /26"},
		"one address":              {to("10.60.1.1/32", "b", "192.0.2.2", macB), ipam.ModeRouted, "no /26"},
		"bits beside the prefix":   {to("10.60.1.1/26", "b", "192.0.2.2", macB), ipam.ModeRouted, "not in the subnets"},
		"IPv4 in IPv6":             {to("::ffff:10.60.1.0/122", "b", "192.0.2.2", macB), ipam.ModeRouted, "not in the subnets"},
		"own block":                {to("10.60.9.0/26", "b", "192.0.2.2", macB), ipam.ModeRouted, "this host's own"},
		"no address":               {edit(func(t *Target) { t.Endpoint.Address = netip.Addr{} }), ipam.ModeRouted, "address is empty"},
		"own address":              {to(blockB, "b", "192.0.2.7", macB), ipam.ModeRouted, "this host's, on eth1"},
		"unspecified":              {to(blockB, "b", "0.0.0.0", macB), ipam.ModeRouted, "unicast"},
		"multicast":                {to(blockB, "b", "224.0.0.1", macB), ipam.ModeVXLAN, "unicast"},
		"broadcast":                {to(blockB, "b", "255.255.255.255", macB), ipam.ModeVXLAN, "unicast"},
		"loopback":                 {to(blockB, "b", "127.0.0.2", macB), ipam.ModeRouted, "unicast"},
		"link-local":               {to(blockB, "b", "169.254.0.2", macB), ipam.ModeRouted, "unicast"},
		"an address in the pool":   {to(blockB, "b", "10.60.3.3", macB), ipam.ModeRouted, "is in the pool"},
		"own link-local":           {edit(func(t *Target) { t.Endpoint.LinkLocal = ip("fe80::1") }), ipam.ModeRouted, "fe80::1 is this host's"},
		"global as link-local":     {edit(func(t *Target) { t.Endpoint.LinkLocal = ip("2001:db8::9") }), ipam.ModeRouted, "linkLocal"},
		"a network of this host":   {to("10.60.21.64/26", "b", "192.0.2.2", macB), ipam.ModeRouted, "a part of the network of this host's route 10.60.20.0/23 dev eth1"},
		"a network of another":     {to("fd60::4000/122", "b", "192.0.2.2", macB), ipam.ModeVXLAN, "a part of the network of this host's route fd60::4000/120 via fe80::99 dev eth1"},
		"behind a router":          {to(blockB, "b", "198.51.100.3", macB), ipam.ModeRouted, "behind 192.0.2.254: use the mode vxlan or auto"},
		"no route":                 {to(blockB, "b", "198.51.100.4", macB), ipam.ModeRouted, "is no link to other hosts"},
		"through a device of ours": {to(blockB, "b", "198.51.100.5", macB), ipam.ModeRouted, "is no link to other hosts"},
		"no next hop for IPv6":     {edit(func(t *Target) { t.Block, t.Endpoint.LinkLocal = cidr("fd60::40/122"), netip.Addr{} }), ipam.ModeRouted, "no link-local IPv6 address"},
		"no MAC":                   {to(blockB, "b", "192.0.2.2", ""), ipam.ModeVXLAN, "no VXLAN device"},
		"a group's MAC":            {to(blockB, "b", "192.0.2.2", "01:00:5e:00:00:01"), ipam.ModeVXLAN, "mac"},
		"all hosts' MAC":           {to(blockB, "b", "192.0.2.2", "ff:ff:ff:ff:ff:ff"), ipam.ModeVXLAN, "mac"},
		"no host's MAC":            {to(blockB, "b", "192.0.2.2", "00:00:00:00:00:00"), ipam.ModeVXLAN, "mac"},
		"another family":           {to(blockB, "b", "2001:db8::2", macB), ipam.ModeVXLAN, "two families"},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFake(), testPool(test.mode)
			f.links = append(f.links,
				link{device: device{name: "eth1", up: true, mtu: 1500}, kind: "device", index: 3},
				link{device: device{name: "vx-other", alias: "allocnet pool other", up: true}, kind: "vxlan", index: 4})
			f.addresses = append(f.addresses, address{ip("10.60.0.1"), "eth1", true}, address{ip("192.0.2.7"), "eth1", true})
			f.routes = append(f.routes, entry{prefix: cidr("10.60.20.0/23"), device: "eth1"}, entry{prefix: cidr("fd60::4000/120"), via: ip("fe80::99"), device: "eth1", metric: 256})
			f.hops = map[netip.Addr]hop{ip("198.51.100.3"): behindRouter, ip("198.51.100.4"): {}, ip("198.51.100.5"): {device: "vx-other"}}
			table := start(t, f, p)
			before := f.state()
			report, err := table.Apply(p, []netip.Prefix{cidr("10.60.9.0/26")}, []Target{test.target})
			if r := report.Routes[0]; err != nil || r.State != Refused || !strings.Contains(r.Reason, test.reason) {
				t.Errorf("%+v, %v; want %q", r, err, test.reason)
			}
			after := f.state()
			for _, s := range p.Subnets {
				after = strings.ReplaceAll(after, unclaimed(s).String(), "")
			}
			if strings.TrimSpace(after) != strings.TrimSpace(before) {
				t.Errorf("the kernel has:\n%s", f.state())
			}
		})
	}
}

// TestOverlap: a pool whose subnets have what this host needs gets no routes, also none that it had: they
// would cut the host off. What allocations of the host have is in the subnets, too.
func TestOverlap(t *testing.T) {
	own := []netip.Prefix{cidr("10.60.9.0/26")}
	targets := []Target{to("10.60.1.0/26", "b", "192.0.2.2", macB), to("fd60::40/122", "b", "192.0.2.2", macB)}
	for name, test := range map[string]struct {
		change func(*fake, *Pool)
		want   string
	}{
		"the endpoint":            {func(_ *fake, p *Pool) { p.Subnets[0] = cidr("192.0.0.0/16") }, "192.0.2.1, at which other hosts reach this one"},
		"the endpoint, a gateway": {func(_ *fake, p *Pool) { p.Subnets[0], p.Gateways[0] = cidr("192.0.0.0/16"), local.Address }, "192.0.2.1, at which other hosts reach this one"},
		"an interface":            {func(f *fake, _ *Pool) { f.addresses = append(f.addresses, address{ip("fd60::807"), "eth1", true}) }, "fd60::807 of this host's interface eth1"},
		"the default gateway":     {func(f *fake, _ *Pool) { f.gateways = append(f.gateways, ip("10.60.7.9")) }, "10.60.7.9, this host's default gateway"},
		"a gateway of the pool":   {func(f *fake, _ *Pool) { f.addresses = append(f.addresses, address{ip("10.60.0.1"), "alloc0", true}) }, ""},
		"an address of a block":   {func(f *fake, _ *Pool) { f.addresses = append(f.addresses, address{ip("10.60.9.7"), "alloc0", true}) }, ""},
	} {
		f, p := newFake(), testPool(ipam.ModeRouted)
		table := start(t, f, p)
		apply(t, table, p, targets...)
		test.change(f, &p)
		report, err := table.Apply(p, own, targets)
		if test.want == "" {
			if err != nil || report.Added+report.Replaced+report.Removed != 0 {
				t.Errorf("%s: %v, %+v", name, err, report)
			}
			continue
		}
		if !errors.Is(err, ErrOverlap) || !strings.Contains(err.Error(), test.want) || f.state() != "" {
			t.Errorf("%s: %v, the kernel has:\n%s", name, err, f.state())
		}
		for _, r := range report.Routes {
			if r.State != Refused || r.Reason != "the pool's subnets have "+test.want {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if again, err := table.Apply(p, own, targets); !errors.Is(err, ErrOverlap) || again.Removed > 0 {
			t.Errorf("%s, the second time: %+v, %v", name, again, err)
		}
	}
}

// TestNodeInPool: a host whose node has an address in the pool's subnets gets no route. Neither it nor who has
// the block around that address cuts this host off from the node, nor stops the routes to other hosts.
func TestNodeInPool(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeRouted)
	report := apply(t, start(t, f, p), p, to("10.60.1.0/26", "b", "10.60.3.3", ""), to("10.60.3.0/26", "c", "192.0.2.3", ""), to("10.60.4.0/26", "d", "192.0.2.4", ""))
	for i, want := range []string{"the address 10.60.3.3 is in the pool", "the block has the address 10.60.3.3 of the node b", ""} {
		if r := report.Routes[i]; r.Reason != want || (r.State == Installed) != (want == "") {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	requireState(t, f, "route 10.60.4.0/26 via 192.0.2.4 dev eth0\nroute unreachable fd60::/112 metric 4278198272")
}

// TestReplaced: blocks of a host with this one's address have no route and are no fault: until they are reclaimed,
// the store has those of the machine that this one replaces.
func TestReplaced(t *testing.T) {
	for _, mode := range []ipam.Mode{ipam.ModeRouted, ipam.ModeVXLAN, ipam.ModeAuto} {
		f, p := newFake(), testPool(mode)
		table := start(t, f, p)
		apply(t, table, p)
		report := apply(t, table, p, to("10.60.1.0/26", "old", "192.0.2.1", macB), to("fd60::40/122", "old", "192.0.2.1", ""))
		for _, r := range report.Routes {
			if r.State != Replaced || r.Reason != "the address 192.0.2.1 is this host's by now" || report.Added > 0 {
				t.Errorf("%s: %+v", mode, report)
			}
		}
		bad := apply(t, table, p, to("10.60.1.0/25", "old", "192.0.2.1", macB))
		if r := bad.Routes[0]; r.State != Refused {
			t.Errorf("%s: what is no block: %+v", mode, r)
		}
	}
}

// TestAllowedTargets are close to refused ones.
func TestAllowedTargets(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeRouted)
	f.addresses = append(f.addresses, address{ip("10.60.0.1"), "eth0", true}) // the gateway, which all hosts have
	f.routes = append(f.routes, entry{prefix: p.Subnets[0], device: "eth0"}, entry{prefix: cidr("0.0.0.0/0"), via: ip("192.0.2.254"), device: "eth0"},
		entry{prefix: cidr("10.0.0.0/8"), via: ip("192.0.2.9"), device: "eth0"}, entry{prefix: cidr("10.60.255.200/32"), device: "eth0"})
	table := start(t, f, p)
	report, err := table.Apply(p, []netip.Prefix{cidr("10.60.9.0/26")}, []Target{
		to("10.60.0.0/26", "b", "192.0.2.2", ""), to("10.60.9.64/26", "b", "192.0.2.2", ""), to("10.60.255.192/26", "c", "192.0.2.3", ""),
	})
	for _, r := range report.Routes {
		if r.State != Installed || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestSameAddress: several hosts may say to have an address, and Nomad that they do: one that has lost
// its instance, a machine and the one that it replaces, and who wrote one variable with the address of
// another host. Whichever comes first and whatever MACs they name, each block has its route, and the
// routes of the others do not change.
func TestSameAddress(t *testing.T) {
	for _, mode := range []ipam.Mode{ipam.ModeVXLAN, ipam.ModeRouted} {
		b, c := to("10.60.1.0/26", "b", "192.0.2.2", macB), to("10.60.2.0/26", "c", "192.0.2.3", macC)
		again, liar := to("10.60.0.0/26", "b again", "192.0.2.2", "02:00:00:00:00:66"), to("10.60.3.0/26", "liar", "192.0.2.4", macB)
		f, p := newFake(), testPool(mode)
		table := start(t, f, p)
		apply(t, table, p, b, c)
		before := f.state()
		for _, targets := range [][]Target{{again, b, c, liar}, {b, liar, c, again}, {liar, c, again, b}} {
			for _, r := range apply(t, table, p, targets...).Routes {
				if r.State != Installed {
					t.Errorf("%s: %+v", mode, r)
				}
			}
			for line := range strings.Lines(before) {
				if !strings.Contains(f.state(), strings.TrimSpace(line)) {
					t.Errorf("%s: want %s in\n%s", mode, line, f.state())
				}
			}
		}
		apply(t, table, p, b, c)
		requireState(t, f, before)
	}
}

// TestSameMAC: a node that has chosen its IPv6 address so that the MAC is that of another gets no packets of
// that one, whichever comes first in the list.
func TestSameMAC(t *testing.T) {
	b, c := to("10.60.1.0/26", "b", "2001:db8::95:7888", macB), to("10.60.2.0/26", "c", "2001:db8::3", macC)
	liar := to("10.60.0.0/26", "liar", "2001:db8::f8:6e31", macB)
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	table := newTable(Options{Dir: t.TempDir()}, f)
	if _, _, err := table.Device(p, ipam.Endpoint{Address: ip("2001:db8::1")}); err != nil {
		t.Fatal(err)
	}
	apply(t, table, p, b, c)
	before := f.state()
	report := apply(t, table, p, liar, b, c)
	if report.Routes[0].State != Refused || report.Routes[1].State != Installed || f.state() != before {
		t.Errorf("%+v\n%s", report, f.state())
	}
	// The block of a node that is gone keeps nothing from another one.
	if report := apply(t, table, p, liar, c); report.Routes[0].State != Installed {
		t.Errorf("alone: %+v", report)
	}
}

// TestSameBlock: one of two targets has the block.
func TestSameBlock(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeRouted)
	report := apply(t, start(t, f, p), p, to("10.60.1.0/26", "b", "192.0.2.2", ""), to("10.60.1.0/26", "c", "192.0.2.3", ""))
	if report.Routes[0].State != Installed || report.Routes[1].State != Refused {
		t.Errorf("%+v", report)
	}
}

// TestForeignRoute: one of others for the block wins whatever its metric, also if it comes later.
func TestForeignRoute(t *testing.T) {
	foreign := map[string]entry{
		"same metric":   {prefix: cidr("10.60.1.0/26"), via: ip("192.0.2.99"), device: "eth0"},
		"worse metric":  {prefix: cidr("10.60.1.0/26"), via: ip("192.0.2.99"), device: "eth0", metric: 4000},
		"unreachable":   {prefix: cidr("10.60.1.0/26"), unreachable: true, metric: 10},
		"a connected 6": {prefix: cidr("fd60::40/122"), device: "eth0", metric: 256},
	}
	targets := []Target{to("10.60.1.0/26", "b", "192.0.2.2", ""), to("fd60::40/122", "b", "192.0.2.2", "")}
	for name, e := range foreign {
		f, p := newFake(), testPool(ipam.ModeRouted)
		table := start(t, f, p)
		apply(t, table, p, targets...)
		f.routes = append(f.routes, e)
		before := f.foreignState()
		for _, r := range apply(t, table, p, targets...).Routes {
			if conflict := r.Block == e.prefix; (r.State == Conflict) != conflict || conflict && !strings.Contains(r.Reason, e.prefix.String()) {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if strings.Contains(f.state(), e.prefix.String()) || f.foreignState() != before {
			t.Errorf("%s:\n%s\n%s", name, f.state(), f.foreignState())
		}
		f.routes = slices.DeleteFunc(f.routes, func(o entry) bool { return o == e })
		for _, r := range apply(t, table, p, targets...).Routes {
			if r.State != Installed {
				t.Errorf("%s, without it: %+v", name, r)
			}
		}
	}
}

// TestForeignSubnet: a bridge has a route for the subnet, which is preferred to the unreachable one.
func TestForeignSubnet(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeRouted)
	f.routes = []entry{{prefix: p.Subnets[0], device: "eth0"}, {prefix: p.Subnets[1], metric: subnetMetric, unreachable: true}}
	apply(t, start(t, f, p), p)
	requireState(t, f, "route unreachable 10.60.0.0/16 metric 4278198272")
}

// TestReplacedInPlace: a route whose next hop changes is never missing.
func TestReplacedInPlace(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	table := start(t, f, p)
	apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", macB), to("10.60.2.0/26", "c", "192.0.2.3", macC), to("10.60.3.0/26", "b", "192.0.2.2", macB))
	f.log = nil
	report := apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.20", macB), to("10.60.2.0/26", "c", "192.0.2.3", macC))
	var log []string
	for _, c := range f.log {
		log = append(log, c.String())
	}
	want := []string{
		deviceOf("192.0.2.20", "add forwarding of MAC to 192.0.2.20 dev vx-net"),
		deviceOf("192.0.2.20", "add neighbour 192.0.2.20 MAC dev vx-net"),
		"replace route 10.60.1.0/26 via 192.0.2.20 dev vx-net",
		"remove route 10.60.3.0/26 via 192.0.2.2 dev vx-net",
		deviceOf("192.0.2.2", "remove neighbour 192.0.2.2 MAC dev vx-net"),
		deviceOf("192.0.2.2", "remove forwarding of MAC to 192.0.2.2 dev vx-net"),
	}
	if diff := gocmp.Diff(want, log); diff != "" || report.Added != 2 || report.Replaced != 2 || report.Removed != 3 { // the guard, too
		t.Errorf("%+v (-want +got):\n%s", report, diff)
	}
}

// TestFailedChange: what depends on it has failed, the rest is done, and the next time all is.
func TestFailedChange(t *testing.T) {
	b, c, mac := to("10.60.1.0/26", "b", "192.0.2.2", macB), to("10.60.2.0/26", "c", "192.0.2.3", macC), deviceMAC(ip("192.0.2.2"), "net")
	for _, o := range []object{
		forward{"vx-net", mac, ip("192.0.2.2")}, neighbour{"vx-net", ip("192.0.2.2"), mac},
		entryTo(b.Block, next{via: ip("192.0.2.2"), device: "vx-net", onlink: true, source: ip("192.0.2.1")}),
	} {
		f, p := newFake(), testPool(ipam.ModeVXLAN)
		table := start(t, f, p)
		f.refused[o] = unix.EPERM
		report, err := table.Apply(p, nil, []Target{b, c})
		if !errors.Is(err, unix.EPERM) || report.Routes[0].State != Failed || report.Routes[0].Reason == "" || report.Routes[1].State != Installed {
			t.Errorf("%s: %+v, %v", o, report, err)
		}
		delete(f.refused, o)
		if report := apply(t, table, p, b, c); report.Routes[0].State != Installed || report.Added != 1 {
			t.Errorf("%s, again: %+v", o, report)
		}
	}
}

// TestChangedSubnets: routes of a subnet that the pool does not have any more are removed.
func TestChangedSubnets(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeRouted)
	table := start(t, f, p)
	apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", ""))
	p.Subnets = []netip.Prefix{cidr("10.70.0.0/16")}
	apply(t, table, p)
	requireState(t, f, "route unreachable 10.70.0.0/16 metric 4278198272")
}

// TestModeWithoutDevice: a pool that has become routed has no device any more.
func TestModeWithoutDevice(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	table := start(t, f, p)
	apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", macB))
	p.Mode = ipam.ModeRouted
	apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", macB))
	requireState(t, f, "route 10.60.1.0/26 via 192.0.2.2 dev eth0\nroute unreachable 10.60.0.0/16 metric 4278198272\nroute unreachable fd60::/112 metric 4278198272")
}

// TestTwoPools: each has its own routes and device.
func TestTwoPools(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	q := p
	q.Name, q.Subnets, q.VXLAN.ID = "other", []netip.Prefix{cidr("10.70.0.0/16")}, 8
	table := start(t, f, p)
	apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", macB))
	one := f.state()
	if _, _, err := table.Device(q, local); err != nil {
		t.Fatal(err)
	}
	apply(t, table, q, to("10.70.1.0/26", "b", "192.0.2.2", macC))
	if report := apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", macB)); report.Added+report.Replaced+report.Removed != 0 {
		t.Errorf("%+v", report)
	}
	if err := table.Remove(Pool{Name: "other"}); err != nil {
		t.Fatal(err)
	}
	requireState(t, f, one)
	if err := errors.Join(table.Remove(Pool{Name: "other"}), table.Remove(Pool{Name: "never"})); err != nil {
		t.Error(err)
	}
}

// TestNarrowerPool: a pool whose subnet has that of another one leaves the routes of that one alone.
func TestNarrowerPool(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	wide := p
	wide.Name, wide.Subnets, wide.VXLAN.ID = "wide", []netip.Prefix{cidr("10.0.0.0/8")}, 8
	table := start(t, f, p)
	apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", macB))
	want := f.state()
	if _, _, err := table.Device(wide, local); err != nil {
		t.Fatal(err)
	}
	if report := apply(t, table, wide, to("10.61.1.0/26", "b", "192.0.2.2", macB)); report.Removed != 0 {
		t.Errorf("%+v", report)
	}
	if report := apply(t, table, p, to("10.60.1.0/26", "b", "192.0.2.2", macB)); report.Added+report.Replaced+report.Removed != 0 {
		t.Errorf("%+v", report)
	}
	if err := table.Remove(Pool{Name: "wide"}); err != nil {
		t.Error(err)
	}
	requireState(t, f, want)
}

// TestApplyWithoutDevice: the host's address is not known.
func TestApplyWithoutDevice(t *testing.T) {
	table := newTable(Options{Dir: t.TempDir()}, newFake())
	if _, err := table.Apply(testPool(ipam.ModeRouted), nil, nil); err == nil || !strings.Contains(err.Error(), "call Device first") {
		t.Error(err)
	}
	if _, _, err := table.Device(testPool(ipam.ModeVXLAN), ipam.Endpoint{Address: ip("192.0.2.77")}); err == nil || !strings.Contains(err.Error(), "192.0.2.77") {
		t.Error(err)
	}
}
