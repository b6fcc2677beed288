// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package route tests package route with the kernel: hosts are namespaces, on one link or behind a
// router, and each has an allocation.
package route

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	os.Exit(sandbox.MainDivided(m.Run))
}

// host is a namespace with an allocation in another one.
type host struct {
	name      string
	ns        *netns.Namespace
	inside    *netns.Namespace // the allocation's
	table     *route.Table
	dir       string
	endpoint  ipam.Endpoint
	blocks    []netip.Prefix
	addresses []string // of the allocation
}

// ip runs the command ip, in a namespace if the line begins with -n.
func ip(t testing.TB, format string, args ...any) string {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v: %s", line, err, out)
	}
	return string(out)
}

// namespace makes one that forwards packets.
func namespace(t testing.TB, name string) *netns.Namespace {
	t.Helper()
	path, err := netns.Create(netns.DefaultDir, name)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ns.Close()
		ip(t, "netns del %s", filepath.Base(path))
	})
	sysctl(t, name, "net.ipv6.conf.default.accept_dad=0", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.default.rp_filter=1")
	return ns
}

func sysctl(t testing.TB, name string, settings ...string) {
	t.Helper()
	ns, err := netns.Open(filepath.Join(netns.DefaultDir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		path := "/proc/sys/" + strings.ReplaceAll(key, ".", "/")
		if err := ns.Do(func() error { return os.WriteFile(path, []byte(value), 0) }); err != nil {
			t.Fatal(err)
		}
	}
}

// batch runs commands of ip in a namespace.
func batch(t testing.TB, ns string, commands ...string) {
	t.Helper()
	cmd := exec.Command("ip", "-n", ns, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", commands, err, out)
	}
}

// newHosts makes a, b, …, on one link, the last one behind a router if there are three.
func newHosts(t testing.TB, count int) []*host {
	t.Helper()
	namespace(t, "switch")
	ip(t, "-n switch link add br0 type bridge")
	ip(t, "-n switch link set br0 up")
	namespace(t, "router")
	connect(t, "router", "near", "172.31.0.254/24", "fd31::fe/64")
	var hosts []*host
	for i := range count {
		h := &host{name: string(rune('a' + i)), dir: t.TempDir()}
		h.ns = namespace(t, h.name)
		if i < 2 {
			connect(t, h.name, "eth0", fmt.Sprintf("172.31.0.%d/24", i+1), fmt.Sprintf("fd31::%d/64", i+1))
			batch(t, h.name, "route add default via 172.31.0.254", "route add default via fd31::fe")
			h.endpoint.Address = netip.AddrFrom4([4]byte{172, 31, 0, byte(i + 1)})
		} else {
			ip(t, "-n router link add far type veth peer name eth0 netns %s", h.name)
			address(t, "router", "far", "172.31.1.254/24", "fd31:1::fe/64")
			address(t, h.name, "eth0", "172.31.1.3/24", "fd31:1::3/64")
			batch(t, h.name, "route add default via 172.31.1.254", "route add default via fd31:1::fe")
			h.endpoint.Address = netip.AddrFrom4([4]byte{172, 31, 1, 3})
		}
		h.endpoint.LinkLocal = linkLocal(t, h.name, "eth0")
		h.table = route.New(route.Options{Dir: h.dir})
		allocate(t, h, i+1)
		hosts = append(hosts, h)
	}
	return hosts
}

func linkLocal(t testing.TB, ns, iface string) netip.Addr {
	t.Helper()
	var fields []string
	sandbox.Eventually(t, "the interface "+iface+" of "+ns+" has its link-local address", func() bool {
		fields = strings.Fields(ip(t, "-n %s -6 -o address show dev %s scope link -tentative", ns, iface))
		return len(fields) > 3
	})
	p, err := netip.ParsePrefix(fields[3])
	if err != nil {
		t.Fatal(err)
	}
	return p.Addr()
}

// connect makes an interface of the namespace that is on the link of the others.
func connect(t testing.TB, ns, iface string, addresses ...string) {
	t.Helper()
	ip(t, "-n switch link add p-%s type veth peer name %s netns %s", ns, iface, ns)
	ip(t, "-n switch link set p-%s master br0 up", ns)
	address(t, ns, iface, addresses...)
}

func address(t testing.TB, ns, iface string, addresses ...string) {
	t.Helper()
	commands := []string{"link set " + iface + " up"}
	for _, a := range addresses {
		option := ""
		if strings.Contains(a, ":") {
			option = " nodad"
		}
		commands = append(commands, "address add "+a+" dev "+iface+option)
	}
	batch(t, ns, commands...)
}

// allocate makes an allocation, as the plugin ptp does.
func allocate(t testing.TB, h *host, number int) {
	t.Helper()
	inside := h.name + "-alloc"
	h.inside = namespace(t, inside)
	h.blocks = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.60.%d.0/26", number)), netip.MustParsePrefix(fmt.Sprintf("fd60::%d00/122", number))}
	h.addresses = []string{fmt.Sprintf("10.60.%d.5", number), fmt.Sprintf("fd60::%d05", number)}
	ip(t, "-n %s link add alloc0 type veth peer name eth0 netns %s", h.name, inside)
	address(t, h.name, "alloc0", "10.60.0.1/32", "fd60::1/128")
	address(t, inside, "eth0", h.addresses[0]+"/32", h.addresses[1]+"/128")
	batch(t, h.name, "route add "+h.addresses[0]+" dev alloc0", "route add "+h.addresses[1]+" dev alloc0")
	batch(t, inside, "route add 10.60.0.1 dev eth0", "route add default via 10.60.0.1 dev eth0", "route add fd60::1 dev eth0", "route add default via fd60::1 dev eth0")
	linkLocal(t, h.name, "alloc0")
	for _, a := range h.addresses {
		echo(t, h.inside, a)
	}
}

func pool(mode ipam.Mode) route.Pool {
	return route.Pool{
		Name: "net", Mode: mode, Subnets: []netip.Prefix{netip.MustParsePrefix("10.60.0.0/16"), netip.MustParsePrefix("fd60::/112")},
		BlockSize: ipam.BlockSize{IPv4: 26, IPv6: 122},
		Gateways:  []netip.Addr{netip.MustParseAddr("10.60.0.1"), netip.MustParseAddr("fd60::1")},
		VXLAN:     ipam.VXLAN{ID: 7, Port: 4789},
	}
}

// do runs in the host's namespace.
func (h *host) do(t testing.TB, do func() error) {
	t.Helper()
	if err := h.ns.Do(do); err != nil {
		t.Fatalf("%s: %v", h.name, err)
	}
}

// device makes that of the host.
func (h *host) device(t testing.TB, p route.Pool) (mtu int) {
	t.Helper()
	h.do(t, func() (err error) {
		h.endpoint.MAC, mtu, err = h.table.Device(p, h.endpoint)
		return err
	})
	return mtu
}

// targets are the blocks of the other hosts.
func (h *host) targets(hosts []*host) []route.Target {
	var all []route.Target
	for _, other := range hosts {
		if other == h {
			continue
		}
		for _, b := range other.blocks {
			all = append(all, route.Target{Block: b, Node: other.name, Endpoint: other.endpoint})
		}
	}
	return all
}

// apply makes the routes to the other hosts.
func (h *host) apply(t testing.TB, p route.Pool, hosts []*host) route.Report {
	t.Helper()
	var report route.Report
	h.do(t, func() (err error) {
		report, err = h.table.Apply(p, h.blocks, h.targets(hosts))
		return err
	})
	return report
}

// join makes the devices of all, then the routes.
func join(t testing.TB, p route.Pool, hosts []*host) {
	t.Helper()
	for _, h := range hosts {
		h.device(t, p)
	}
	for _, h := range hosts {
		h.apply(t, p, hosts)
		if again := h.apply(t, p, hosts); again.Added+again.Replaced+again.Removed != 0 {
			t.Errorf("%s, the second time: %+v", h.name, again)
		}
	}
}

// leave removes all of the pool, and requires that the hosts are as they were.
func leave(t testing.TB, hosts []*host, before []string) {
	t.Helper()
	for i, h := range hosts {
		h.do(t, func() error { return h.table.Remove(route.Pool{Name: "net"}) })
		if after := h.state(t); after != before[i] {
			t.Errorf("%s is not as it was:\n%s\nnow:\n%s", h.name, before[i], after)
		}
		if files, err := os.ReadDir(h.dir); err != nil || len(files) != 0 {
			t.Errorf("%s: records left: %v, %v", h.name, files, err)
		}
	}
}

// state is what the host has in its tables, without what the kernel learns by itself.
func (h *host) state(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, what := range []string{"-br link", "-4 -br address", "-6 -br address", "-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule", "neighbour show nud permanent"} {
		fmt.Fprintf(&b, "== %s\n%s", what, ip(t, "-n %s %s", h.name, what))
	}
	return b.String()
}

func states(t testing.TB, hosts []*host) (all []string) {
	t.Helper()
	for _, h := range hosts {
		all = append(all, h.state(t))
	}
	return all
}
