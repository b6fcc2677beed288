// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// newLAN6 is a LAN whose router has addresses of IPv6, with the network of docs/dhcp.md.
func newLAN6(t *testing.T) *lan {
	t.Helper()
	l := newLAN(t)
	for _, prefix := range []string{"2001:db8:77:", "2001:db8:78:"} {
		sandbox.Run(t, "ip", "-n", "dhcpd", "addr", "add", prefix+":1/64", "dev", "srv0", "nodad")
	}
	sandbox.WriteFile(t, l.conf+"/70-lan6.conflist", block(t, "dhcp.md", "tested: dhcpv6 conflist", "json"))
	return l
}

// serve6 starts the server of both families, which also advertises itself as router.
func (l *lan) serve6(addresses string, options ...string) {
	l.Helper()
	l.serve("10.77.0.50,10.77.0.60", append([]string{"--enable-ra", "--dhcp-range=" + addresses + ",64,2m"}, options...)...)
}

// address6 is the address that DHCPv6 has given an interface.
func (l *lan) address6(id, iface string) string {
	l.Helper()
	return regexp.MustCompile(`inet6 (2001:\S+)/128 scope global`).FindString(sandbox.Run(l, "ip", "-n", id, "-6", "addr", "show", "dev", iface))
}

func (l *lan) setup6(id string) (*api.Allocation, error) {
	return l.client.Setup(ctx, id, api.Setup{Primary: api.Selection{{Name: "lan6"}}})
}

// TestDHCPv6: an allocation has addresses of both families of a real server, its name servers, and the routes that the router advertises.
// They are given back in the end.
func TestDHCPv6(t *testing.T) {
	l := newLAN6(t)
	l.ready()
	if _, err := l.setup6("db-1"); err == nil || !strings.Contains(err.Error(), `network "lan6": interface eth0: no DHCP server offers an address within 10s; nothing was heard; no DHCPv6 server offers an address within 10s; nothing was heard`) {
		t.Errorf("without a server: %v", err)
	}
	l.serve6("2001:db8:77::50,2001:db8:77::50", "--dhcp-option=option6:dns-server,[2001:db8:77::1]", "--dhcp-option=option6:domain-search,lan6.example.org")
	a := must[*api.Allocation](l.host)(l.setup6("db-1"))
	if got := l.address6("db-1", "eth0"); got != "inet6 2001:db8:77::50/128 scope global" {
		t.Errorf("the interface has %q", got)
	}
	if all := a.Attachments[0].Addresses; len(all) != 2 || !strings.HasPrefix(all[0].String(), "10.77.0.") || all[1].String() != "2001:db8:77::50/128" {
		t.Errorf("told are %v", all)
	}
	if dns := a.Attachments[0].DNS; len(dns.Servers) != 1 || dns.Servers[0] != "2001:db8:77::1" || dns.Searches[0] != "lan6.example.org" {
		t.Errorf("DNS: %+v", dns)
	}
	l.await("the router advertises itself, and which addresses are on the link", func() bool {
		routes := sandbox.Run(t, "ip", "-n", "db-1", "-6", "route")
		return strings.Contains(routes, "default via fe80::") && strings.Contains(routes, "2001:db8:77::/64 dev eth0")
	})
	l.requireChecked("db-1")
	if _, err := l.setup6("db-2"); err == nil || !strings.Contains(err.Error(), `no DHCPv6 server offers an address within 10s; heard: fe80::`) || !strings.Contains(err.Error(), "NoAddrsAvail") {
		t.Errorf("the pool is exhausted: %v", err)
	}
	if err := l.client.Teardown(ctx, "db-1"); err != nil {
		t.Error(err)
	}
	l.await("the server has no lease", func() bool { return !strings.Contains(read(t, l.dir+"/leases"), "::50") })
	if again := must[*api.Allocation](l.host)(l.setup6("db-2")).Attachments[0].Addresses; again[1].String() != "2001:db8:77::50/128" {
		t.Errorf("the address that was given back is not given again: %v", again)
	}
	if out, code := l.allocnet("detach", "db-2"); code != 0 { // by a process that is not the agent
		t.Error(out)
	}
	l.await("the server has no lease", func() bool { return !strings.Contains(read(t, l.dir+"/leases"), "::50") })
}

// TestLongDHCPv6: a lease is extended by an agent that is killed and started again, also after the server was gone, and replaced when the
// server refuses the address. The other family keeps what it has.
func TestLongDHCPv6(t *testing.T) {
	l := newLAN6(t)
	l.serve6("2001:db8:77::50,2001:db8:77::60")
	l.ready()
	must[*api.Allocation](l.host)(l.setup6("db-1"))
	four, six := address(l.host, "db-1", "eth0"), l.address6("db-1", "eth0")
	l.end(unix.SIGKILL)
	l.ready()
	l.awaitTold("DHCPRENEW", 1)
	l.stop()
	l.serve6("2001:db8:77::50,2001:db8:77::60")
	l.awaitTold("DHCPRENEW", 1)
	if now := l.address6("db-1", "eth0"); now != six {
		t.Errorf("the address is %q, want %q", now, six)
	}
	if got := l.events("lan6"); strings.Contains(got, "lease") {
		t.Errorf("events: %s", got)
	}
	l.stop()
	l.serve6("2001:db8:78::50,2001:db8:78::60")
	l.await("the address is replaced", func() bool { return strings.HasPrefix(l.address6("db-1", "eth0"), "inet6 2001:db8:78:") })
	l.await("the event", func() bool { return l.events("lan6") == "attached, lease changed" })
	now := must[*api.Allocation](l.host)(l.client.Allocation(ctx, "db-1"))
	if all := now.Attachments[0].Addresses; len(all) != 2 || "inet "+all[0].String() != four || !strings.HasPrefix(all[1].String(), "2001:db8:78:") {
		t.Errorf("told are %v, want %s and one of the other range", all, four)
	}
	l.requireChecked("db-1")
	if err := l.client.Teardown(ctx, "db-1"); err != nil {
		t.Error(err)
	}
	l.await("the server has no lease", func() bool { return !strings.Contains(read(t, l.dir+"/leases"), "2001:db8:78:") })
}

// TestDHCPDuplicate: addresses that another host of the link has without the servers' knowing are declined, and the allocation gets others. The
// servers remember which they gave the client before.
func TestDHCPDuplicate(t *testing.T) {
	l := newLAN6(t)
	l.serveISC("4", onLAN, "")
	l.serveISC("6", onLAN6, "")
	l.ready()
	attach := func() []netip.Prefix { return must[*api.Allocation](l.host)(l.setup6("db-1")).Attachments[0].Addresses }
	first := attach()
	if out, code := l.allocnet("detach", "db-1"); code != 0 {
		t.Error(out)
	}
	for _, command := range []string{
		"ip netns add other", "ip link add other0 link lan0 netns other type macvlan mode bridge", "ip -n other link set other0 up",
		"ip -n other addr add " + first[0].String() + " dev other0", "ip -n other addr add " + first[1].Addr().String() + "/64 dev other0 nodad",
	} {
		sandbox.Run(t, strings.Fields(command)...)
	}
	t.Cleanup(func() { sandbox.Run(t, "ip", "netns", "delete", "other") })
	if now := attach(); now[0] == first[0] || now[1] == first[1] {
		t.Errorf("it has %v, of which another host has %v", now, first)
	}
	l.awaitTold("DHCPDECLINE", 1)
	l.awaitLogged("is already in use by another host", 1)
	l.requireChecked("db-1")
	if err := l.client.Teardown(ctx, "db-1"); err != nil {
		t.Error(err)
	}
}

// TestDHCPv6OfAJob: while an allocation has the address of its place in the job, another one neither gets nor releases it, and has it when
// the first one has ended.
func TestDHCPv6OfAJob(t *testing.T) {
	l := newLAN6(t)
	sandbox.WriteFile(t, l.conf+"/70-lan6.conflist", strings.Replace(block(t, "dhcp.md", "tested: dhcpv6 conflist", "json"), `["ipv4", "ipv6"]`, `["ipv6"], "identity": "job", "hostname": "job"`, 1))
	l.serve6("2001:db8:77::50,2001:db8:77::60")
	l.ready()
	setup := func(id string) (*api.Allocation, error) {
		return l.client.Setup(ctx, id, api.Setup{
			Primary: api.Selection{{Name: "lan6"}}, Identity: allocation.Identity{Namespace: "default", Job: "db", Group: "main"}, Args: map[string]string{"ADDRESS_KEY": "0"},
		})
	}
	first := must[*api.Allocation](l.host)(setup("db-1")).Attachments[0].Addresses
	if _, err := setup("db-2"); err == nil || !strings.Contains(err.Error(), "is used by another allocation still") {
		t.Errorf("a second one is attached: %v", err)
	}
	if now := l.address6("db-1", "eth0"); !strings.Contains(now, first[0].String()) || !strings.Contains(read(t, l.dir+"/leases"), first[0].Addr().String()) {
		t.Errorf("the first one has %q, want %v; the server has %s", now, first, read(t, l.dir+"/leases"))
	}
	if err := l.client.Teardown(ctx, "db-1"); err != nil {
		t.Error(err)
	}
	if again := must[*api.Allocation](l.host)(setup("db-2")).Attachments[0].Addresses; len(again) != 1 || again[0] != first[0] {
		t.Errorf("the second one has %v, want %v", again, first)
	}
	if !strings.Contains(read(t, l.dir+"/leases"), " db ") {
		t.Errorf("the server does not know its name: %s", read(t, l.dir+"/leases"))
	}
	if err := l.client.Teardown(ctx, "db-2"); err != nil {
		t.Error(err)
	}
}

// TestDHCPv6Page runs the example of docs/dhcp.md, and what it says of a network that takes no routes, and of a host without an agent.
func TestDHCPv6Page(t *testing.T) {
	l := newLAN6(t)
	l.serve6("2001:db8:77::50,2001:db8:77::60")
	if out, code := l.allocnet("networks", "lan6"); code == 0 || !strings.Contains(out, "families of dhcp in") {
		t.Errorf("without an agent: %d %s", code, out)
	}
	l.ready()
	l.network("routeless", `, "families": ["ipv6"]`)
	if out, code := l.allocnet("networks", "routeless"); code != 0 || !strings.Contains(out, "DHCPv6 gives no routes") {
		t.Errorf("a network that ignores router advertisements: %d %s", code, out)
	}
	if out, err := l.script(block(t, "dhcp.md", "tested: dhcpv6", "sh")); err != nil || !strings.Contains(out, "2001:db8:77::") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLongDHCPIsolated: on a strict network, what asks for leases and asks the link passes, by both families: a lease whose address another host has taken,
// while no server extended it, is replaced by another one. Rules know the new address, and it reaches the link; neighbours stay apart.
func TestLongDHCPIsolated(t *testing.T) {
	l := newLAN6(t)
	sandbox.WriteFile(t, l.conf+"/70-lan6.conflist", `{"cniVersion": "1.1.0", "name": "lan6", "allocnet": {"isolation": "strict", "enforce": "inside"},
		"plugins": [{"type": "macvlan", "master": "lan0", "ipam": {"type": "dhcp", "families": ["ipv4", "ipv6"]}}]}`)
	serve := func() {
		l.serveISC("4", onLAN, read(t, l.leases("4")))
		l.serveISC("6", onLAN6, read(t, l.leases("6")))
	}
	sandbox.WriteFile(t, l.leases("4"), "")
	sandbox.WriteFile(t, l.leases("6"), "")
	serve()
	l.ready()
	must[*api.Allocation](l.host)(l.setup6("db-2"))
	first := must[*api.Allocation](l.host)(l.setup6("db-1")).Attachments[0].Addresses
	four, six := address(l.host, "db-1", "eth0"), l.address6("db-1", "eth0")
	l.stop()
	l.await("the leases end", func() bool { return address(l.host, "db-1", "eth0") == "" && l.address6("db-1", "eth0") == "" })
	for _, command := range []string{
		"ip netns add other", "ip link add other0 link lan0 netns other type macvlan mode bridge", "ip -n other link set other0 up",
		"ip -n other addr add " + first[0].String() + " dev other0", "ip -n other addr add " + first[1].Addr().String() + "/64 dev other0 nodad",
	} {
		sandbox.Run(t, strings.Fields(command)...)
	}
	t.Cleanup(func() { sandbox.Run(t, "ip", "netns", "delete", "other") })
	serve()
	l.await("the leases are replaced", func() bool { return address(l.host, "db-1", "eth0") != "" && l.address6("db-1", "eth0") != "" })
	if address(l.host, "db-1", "eth0") == four || l.address6("db-1", "eth0") == six {
		t.Errorf("it has %s and %s, which another host has", address(l.host, "db-1", "eth0"), l.address6("db-1", "eth0"))
	}
	l.awaitTold("DHCPDECLINE", 1)
	sandbox.Run(t, "ip", "-n", "db-1", "-6", "route", "add", "2001:db8:77::/64", "dev", "eth0")
	isReached := func(to string) bool { // the port is closed
		out, _ := l.script("ip netns exec db-1 timeout 1 bash -c '</dev/tcp/" + to + "/9'")
		return strings.Contains(out, "Connection refused")
	}
	l.await("what it sends passes", func() bool { return isReached("10.77.0.1") && isReached("2001:db8:77::1") })
	l.await("the neighbour has an address", func() bool { return address(l.host, "db-2", "eth0") != "" })
	neighbour := strings.Split(strings.TrimPrefix(address(l.host, "db-2", "eth0"), "inet "), "/")[0]
	if isReached(neighbour) {
		t.Error("neighbours reach each other")
	}
	l.requireChecked("db-1")
	for _, id := range []string{"db-1", "db-2"} {
		if err := l.client.Teardown(ctx, id); err != nil {
			t.Error(err)
		}
	}
}
