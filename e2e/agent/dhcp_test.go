// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/state"
)

// lan is a link to a namespace in which DHCP servers run.
type lan struct {
	*host
	dir string
	// at is the namespace of the servers.
	at      string
	servers []*exec.Cmd
	output  *log
}

// newLAN returns one without a server, and a network lan by it.
func newLAN(t *testing.T) *lan {
	t.Helper()
	l := &lan{host: newHost(t), dir: t.TempDir(), at: "dhcpd", output: &log{}}
	for _, command := range []string{
		"ip netns add dhcpd", "ip link add lan0 type veth peer name srv0 netns dhcpd", "ip link set lan0 up",
		"ip -n dhcpd link set srv0 up", "ip -n dhcpd link set lo up", "ip -n dhcpd addr add 10.77.0.1/24 dev srv0", "ip -n dhcpd addr add 10.78.0.1/24 dev srv0",
	} {
		sandbox.Run(t, strings.Fields(command)...)
	}
	t.Cleanup(func() {
		l.stop()
		sandbox.Run(t, "ip", "link", "del", "lan0")
		sandbox.Run(t, "ip", "netns", "delete", "dhcpd")
	})
	l.network("lan", "")
	return l
}

// network adds a network by the link.
func (l *lan) network(name, keys string) {
	l.Helper()
	sandbox.WriteFile(l.T, l.conf+"/70-"+name+".conflist", fmt.Sprintf(
		`{"cniVersion": "1.1.0", "name": %q, "plugins": [{"type": "macvlan", "master": "lan0", "ipam": {"type": "dhcp"%s}}]}`, name, keys))
}

// serve starts dnsmasq, which has leases of two minutes, its shortest, for the addresses of a range.
func (l *lan) serve(addresses string, options ...string) {
	l.Helper()
	l.run(l.at, "DHCP, IP range", append([]string{
		"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=srv0", "--pid-file", "--user=root",
		"--dhcp-leasefile=" + l.dir + "/leases", "--dhcp-range=" + addresses + ",255.255.255.0,2m", "--dhcp-authoritative", "--no-ping",
		"--log-facility=-", "--log-dhcp",
	}, options...)...)
}

// serveISC starts the server of ISC for a family, "4" or "6", which has leases of 14 seconds: they are renewed after seven. It knows
// of those that were given, and of no others.
func (l *lan) serveISC(family, subnets, given string) {
	l.Helper()
	conf, leases := l.dir+"/dhcpd"+family+".conf", l.leases(family)
	sandbox.WriteFile(l.T, conf, "authoritative; default-lease-time 14; min-lease-time 14; max-lease-time 14; preferred-lifetime 14;\n"+
		"ping-check false; dhcp-cache-threshold 0; local-address6 ::;\n"+subnets+"\n")
	sandbox.WriteFile(l.T, leases, given)
	l.run(l.at, "Server starting service", isc(l.T, "dhcpd"), "-"+family, "-f", "-d", "--no-pid", "-cf", conf, "-lf", leases, "srv0")
}

// leases is the file of those of the server of ISC for a family.
func (l *lan) leases(family string) string { return l.dir + "/dhcpd" + family + ".leases" }

// onLAN and onLAN6 are the subnets of the LAN, and their addresses, for the servers of ISC.
const (
	onLAN  = "subnet 10.77.0.0 netmask 255.255.255.0 { range 10.77.0.50 10.77.0.60; option routers 10.77.0.1; }\n"
	onLAN6 = "subnet6 2001:db8:77::/64 { range6 2001:db8:77::50 2001:db8:77::60; }\n"
)

// isc is the path of a program of ISC.
func isc(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(sandbox.Root(), "build", "isc-dhcp", name)
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run: make isc-dhcp", err)
	}
	return program
}

// run starts a program in a namespace, and waits until it says that it is ready. Its messages, and those of others that run, are in output.
func (l *lan) run(namespace, ready string, command ...string) {
	l.Helper()
	if len(l.servers) == 0 {
		l.output = &log{}
	}
	before := strings.Count(l.output.String(), ready)
	server := exec.Command("ip", append([]string{"netns", "exec", namespace}, command...)...)
	server.Stdout, server.Stderr = l.output, l.output
	if err := server.Start(); err != nil {
		l.Fatal(err)
	}
	l.servers = append(l.servers, server)
	sandbox.Eventually(l, "the server is ready", func() bool { return strings.Count(l.output.String(), ready) > before }, l.output.String)
}

// stop stops the servers.
func (l *lan) stop() {
	for _, server := range l.servers {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	l.servers = nil
}

// told is how often a server has logged a message: as "DHCPACK(srv0)", or as "DHCPACK on 10.77.0.50".
func (l *lan) told(message string) int { return l.logged(toldAs(message)) }

func toldAs(message string) string { return message + `(\(srv0\)| on | of )` }

func (l *lan) logged(pattern string) int {
	return len(regexp.MustCompile(pattern).FindAllString(l.output.String(), -1))
}

func (l *lan) awaitLogged(pattern string, n int) {
	l.Helper()
	sandbox.Eventually(l, fmt.Sprintf("%d times %s", n, pattern), func() bool { return l.logged(pattern) >= n }, func() string { return l.output.String() + l.log.String() })
}

func (l *lan) awaitTold(message string, n int) {
	l.Helper()
	l.awaitLogged(toldAs(message), n)
}

// ready starts the agent, which asks for leases.
func (l *lan) ready() {
	l.Helper()
	l.start()
	l.await("leases are kept", func() bool {
		out, _ := l.allocnet("networks", "lan")
		return strings.Contains(out, "in-process")
	})
}

// events returns those of a network, in words.
func (l *lan) events(network string) string {
	l.Helper()
	out, code := l.allocnet("events", "--json", "--network", network)
	if code != 0 {
		l.Fatal(out)
	}
	var names []string
	for line := range strings.Lines(out) {
		var e api.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			l.Fatal(err)
		}
		names = append(names, e.Name())
	}
	return strings.Join(names, ", ")
}

// script runs the commands of a page.
func (l *lan) script(commands string) (string, error) {
	cmd := exec.Command("bash", "-euxo", "pipefail", "-c", commands)
	cmd.Env = l.env()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func address(h *host, id, iface string) string {
	h.Helper()
	return regexp.MustCompile(`inet (\S+)`).FindString(sandbox.Run(h, "ip", "-n", id, "-4", "addr", "show", "dev", iface))
}

// TestDHCP: an allocation has an address of a real server, which is extended by an agent that is killed and started again, replaced when
// the server refuses it, and given back in the end. Those of dnsmasq are extended after a minute.
func TestDHCP(t *testing.T) {
	const search, routes = "lan.example.org", "192.168.7.0/24 via 10.77.0.9"
	// Each server is another one after its restart, which refuses the address that it gave: one has given it to another client, and one has
	// addresses of another subnet.
	for name, server := range map[string]struct {
		serve   func(l *lan, given string)
		gateway string
	}{
		"ISC": {func(l *lan, given string) {
			if given != "" {
				given = "lease " + given + " { starts epoch 1; ends never; binding state active; hardware ethernet 02:00:00:00:00:99; }\n"
			}
			l.serveISC("4", `option classless code 121 = array of unsigned integer 8; option domain-search "`+search+`";`+
				"subnet 10.77.0.0 netmask 255.255.255.0 { range 10.77.0.50 10.77.0.60; option classless 24,192,168,7,10,77,0,9,0,10,77,0,1; }", given)
		}, "10.77.0.1"},
		"LongDnsmasq": {func(l *lan, given string) {
			if given != "" {
				l.serve("10.78.0.50,10.78.0.60")
				return
			}
			l.serve("10.77.0.50,10.77.0.60", "--dhcp-option=option:domain-search,"+search, "--dhcp-option=option:classless-static-route,192.168.7.0/24,10.77.0.9,0.0.0.0/0,10.77.0.1")
		}, "10.78.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLAN(t)
			server.serve(l, "")
			l.ready()
			a := must[*api.Allocation](l.host)(l.client.Setup(ctx, "db-1", api.Setup{Primary: api.Selection{{Name: "lan"}}}))
			first := address(l.host, "db-1", "eth0")
			if !strings.HasPrefix(first, "inet 10.77.0.5") && !strings.HasPrefix(first, "inet 10.77.0.60") || !strings.Contains(first, a.Attachments[0].Addresses[0].String()) {
				t.Errorf("the interface has %q, told is %v", first, a.Attachments[0])
			}
			l.requireRoutes("default via 10.77.0.1", routes)
			if dns := a.Attachments[0].DNS; len(dns.Searches) != 1 || dns.Searches[0] != search {
				t.Errorf("DNS: %+v", dns)
			}
			l.awaitTold("DHCPACK", 2)
			l.end(unix.SIGKILL)
			acks := l.told("DHCPACK")
			l.ready()
			l.awaitTold("DHCPACK", acks+1)
			l.requireChecked("db-1")

			l.stop()
			server.serve(l, a.Attachments[0].Addresses[0].Addr().String())
			l.awaitTold("DHCPNAK", 1)
			l.await("the event", func() bool { return l.events("lan") == "attached, lease changed" })
			if now := address(l.host, "db-1", "eth0"); now == first || now == "" {
				t.Errorf("the address is %q", now)
			}
			if routes := l.requireRoutes("default via " + server.gateway); strings.Contains(routes, "src "+a.Attachments[0].Addresses[0].Addr().String()+" ") {
				t.Errorf("routes of the former address: %s", routes)
			}
			if now := must[*api.Allocation](l.host)(l.client.Allocation(ctx, "db-1")); now.Attachments[0].Addresses[0].String() != strings.TrimPrefix(address(l.host, "db-1", "eth0"), "inet ") {
				t.Errorf("told is %v", now.Attachments[0].Addresses)
			}
			l.requireChecked("db-1")
			if err := l.client.Teardown(ctx, "db-1"); err != nil {
				t.Error(err)
			}
			l.awaitLogged(`DHCPRELEASE(\(srv0\)| of .* \(found\))`, 1)
		})
	}
}

// requireRoutes requires that the allocation db-1 has routes, and returns all.
func (l *lan) requireRoutes(want ...string) string {
	l.Helper()
	routes := sandbox.Run(l, "ip", "-n", "db-1", "route")
	for _, route := range want {
		if !strings.Contains(routes, route) {
			l.Errorf("no %s in\n%s", route, routes)
		}
	}
	return routes
}

func (l *lan) requireChecked(id string) {
	l.Helper()
	if out, code := l.allocnet("check", id); code != 0 {
		l.Error(out)
	}
}

// TestDHCPFailures: the error of an attachment that gets no lease says what was heard, and nothing of it is left.
func TestDHCPFailures(t *testing.T) {
	l := newLAN(t)
	l.ready()
	fails := func(want string) {
		t.Helper()
		_, err := l.client.Setup(ctx, "db-2", api.Setup{Primary: api.Selection{{Name: "lan"}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	fails(`network "lan": interface eth0: no DHCP server offers an address within 10s; nothing was heard`)
	l.serve("10.77.0.50,10.77.0.50")
	if _, err := l.client.Setup(ctx, "db-1", api.Setup{Primary: api.Selection{{Name: "lan"}}}); err != nil {
		t.Fatal(err)
	}
	fails(`no DHCP server offers an address within 10s; nothing was heard`) // the pool is exhausted
	if out, code := l.allocnet("detach", "db-1"); code != 0 {               // by a process that is not the agent
		t.Error(out)
	}
	l.awaitTold("DHCPRELEASE", 1)
	l.stop()
	l.serve("10.77.0.50,10.77.0.60", "--dhcp-option=option:router,10.9.0.1")
	fails(`heard: 10.77.0.1: the router is 10.9.0.1: want another address of 10.77.0.0/24`)
}

// TestTwoDHCPNetworks of an allocation: the default route is that of the first one. Each has a lease of its own.
func TestTwoDHCPNetworks(t *testing.T) {
	l := newLAN(t)
	l.network("lan2", "")
	l.serve("10.77.0.50,10.77.0.60")
	l.ready()
	must[*api.Allocation](l.host)(l.client.Setup(ctx, "db-1", api.Setup{Primary: api.Selection{{Name: "lan"}}, Networks: api.Selection{{Name: "lan2"}}}))
	if routes := sandbox.Run(t, "ip", "-n", "db-1", "route"); strings.Count(routes, "default") != 1 || !strings.Contains(routes, "default via 10.77.0.1 dev eth0") {
		t.Errorf("routes: %s", routes)
	}
	if first, second := address(l.host, "db-1", "eth0"), address(l.host, "db-1", "net1"); first == "" || second == "" || first == second {
		t.Errorf("the addresses are %q and %q", first, second)
	}
	if err := l.client.Teardown(ctx, "db-1"); err != nil {
		t.Error(err)
	}
	l.awaitTold("DHCPRELEASE", 2)
}

// TestDHCPOfAJob: what an allocation uses, another one of the same place in its job neither gets nor releases, also if the agent is killed
// before it knows. When the first one has ended, the second one is attached.
func TestDHCPOfAJob(t *testing.T) {
	l := newLAN(t)
	l.network("lan", `, "identity": "job"`)
	l.serveISC("4", onLAN, "")
	l.ready()
	setup := func(id string) (*api.Allocation, error) {
		return l.client.Setup(ctx, id, api.Setup{
			Primary: api.Selection{{Name: "lan"}}, Identity: allocation.Identity{Namespace: "default", Job: "db", Group: "main"}, Args: map[string]string{"ADDRESS_KEY": "0"},
		})
	}
	must[*api.Allocation](l.host)(setup("db-1"))
	if _, err := setup("db-2"); err == nil || !strings.Contains(err.Error(), "is used by another allocation still") {
		t.Errorf("a second one is attached: %v", err)
	}
	sandbox.Run(t, "ip", "-n", "db-1", "link", "set", "eth0", "arp", "off") // the second one asks the link for a second
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = setup("db-2") // the agent is killed
	}()
	l.await("the lease is on record", func() bool { return exec.Command("grep", "-rq", "clientID", l.state+"/allocations/db-2").Run() == nil })
	l.end(unix.SIGKILL)
	<-ended
	sandbox.Run(t, "ip", "-n", "db-1", "link", "set", "eth0", "arp", "on")
	l.ready()
	if err := l.client.Teardown(ctx, "db-2"); err != nil {
		t.Error(err)
	}
	acks := l.told("DHCPACK")
	l.awaitTold("DHCPACK", acks+1) // the first one is extended: what was sent before has arrived
	if n := l.told("DHCPRELEASE"); n != 0 {
		t.Errorf("%d releases of a lease that is in use:\n%s", n, l.output)
	}
	if err := l.client.Teardown(ctx, "db-1"); err != nil {
		t.Error(err)
	}
	l.awaitTold("DHCPRELEASE", 1)
	must[*api.Allocation](l.host)(setup("db-2"))
	if err := l.client.Teardown(ctx, "db-2"); err != nil {
		t.Error(err)
	}
	l.awaitTold("DHCPRELEASE", 2)
}

// TestDHCPPage runs the example of docs/dhcp.md, and what it says of a host without an agent.
func TestDHCPPage(t *testing.T) {
	l := newLAN(t)
	found := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(read(t, "../../docs/dhcp.md"))
	sandbox.WriteFile(t, l.conf+"/70-lan.conflist", found[1])
	l.serve("10.77.0.50,10.77.0.60")
	if out, code := l.allocnet("networks", "lan"); code == 0 || !strings.Contains(out, "no agent of allocnet runs on this host") {
		t.Errorf("without an agent: %d %s", code, out)
	}
	l.network("lan", "")
	if out, _ := l.allocnet("doctor"); !strings.Contains(out, `network "lan" needs the dhcp daemon: its socket /run/cni/dhcp.sock is missing`) {
		t.Errorf("without an agent: %s", out)
	}
	sandbox.WriteFile(t, l.conf+"/70-lan.conflist", found[1])
	l.ready()
	if out, err := l.script(block(t, "dhcp.md", "tested: dhcp", "sh")); err != nil || !strings.Contains(out, "10.77.0.") {
		t.Errorf("%v\n%s", err, out)
	}
	l.awaitTold("DHCPRELEASE", 1)
}

// TestDHCPWithoutNamespace: the lease of an allocation whose namespace is gone cannot be released, which is logged.
func TestDHCPWithoutNamespace(t *testing.T) {
	l := newLAN(t)
	l.serve("10.77.0.50,10.77.0.60")
	l.ready()
	must[*api.Allocation](l.host)(l.client.Setup(ctx, "db-1", api.Setup{Primary: api.Selection{{Name: "lan"}}}))
	sandbox.Run(t, "ip", "netns", "delete", "db-1")
	if err := l.client.Teardown(ctx, "db-1"); err != nil {
		t.Error(err)
	}
	l.await("it is logged", func() bool { return strings.Contains(l.log.String(), "the lease is not released") })
	if l.told("DHCPRELEASE") != 0 {
		t.Error("it was released")
	}
	l.requireNoMarks()
}

// requireNoMarks requires that no allocation is known to have leases.
func (l *lan) requireNoMarks() {
	l.Helper()
	if left, err := os.ReadDir(l.state + "/leases"); err != nil || len(left) != 0 {
		l.Errorf("marks: %v, %v", left, err)
	}
}

// TestDHCPOfTheDead: without the agent, a garbage collection and a reboot end leases that nothing can release. The next one of the same
// client gets the address that the server kept.
func TestDHCPOfTheDead(t *testing.T) {
	l := newLAN(t)
	l.serve("10.77.0.50,10.77.0.60")
	l.ready()
	setup := func() string {
		return must[*api.Allocation](l.host)(l.client.Setup(ctx, "db-1", api.Setup{Primary: api.Selection{{Name: "lan"}}})).Attachments[0].Addresses[0].String()
	}
	first := setup()
	for end, do := range map[string]func(){
		"gc": func() {
			if out, code := l.allocnet("gc"); code != 0 || !strings.Contains(out, "db-1") {
				t.Errorf("gc: %d %s", code, out)
			}
		},
		"a reboot": func() {
			l.bootBefore("db-1")
			l.ready()
			l.await("it is removed", func() bool { _, err := l.client.Allocation(ctx, "db-1"); return err != nil })
			l.end(unix.SIGTERM)
		},
	} {
		l.end(unix.SIGKILL)
		sandbox.Run(t, "ip", "netns", "delete", "db-1")
		do()
		l.requireNoMarks()
		if l.told("DHCPRELEASE") != 0 {
			t.Errorf("%s: it was released", end)
		}
		l.ready()
		if again := setup(); again != first {
			t.Errorf("after %s the address is %s, want %s", end, again, first)
		}
	}
	if err := l.client.Teardown(ctx, "db-1"); err != nil {
		t.Error(err)
	}
}

// bootBefore has a record be of another boot.
func (l *lan) bootBefore(id string) {
	l.Helper()
	store := must[*state.Store](l.host)(state.Open(l.state))
	lock := must[*state.Locked](l.host)(store.Lock(ctx, id))
	defer lock.Unlock()
	record := must[state.Record](l.host)(lock.Load())
	record.Allocation.BootID = "the boot before"
	if err := lock.WriteAllocation(record.Allocation); err != nil {
		l.Fatal(err)
	}
}

// TestDHCPRelay: servers of both families behind a router give leases by a relay, are asked to extend them, the one of IPv4 by the router, and
// get them back.
func TestDHCPRelay(t *testing.T) {
	l := newLAN6(t)
	for _, command := range []string{
		"ip netns add far", "ip -n dhcpd link add far0 type veth peer name srv0 netns far", "ip -n dhcpd link set far0 up", "ip -n far link set srv0 up",
		"ip -n dhcpd addr add 10.99.0.1/24 dev far0", "ip -n far addr add 10.99.0.2/24 dev srv0", "ip -n far route add default via 10.99.0.1",
		"ip netns exec dhcpd sysctl -qw net.ipv4.ip_forward=1",
		"ip -n dhcpd addr add 2001:db8:99::1/64 dev far0 nodad", "ip -n far addr add 2001:db8:99::2/64 dev srv0 nodad", "ip -n far -6 route add default via 2001:db8:99::1",
		"ip netns exec dhcpd sysctl -qw net.ipv6.conf.all.forwarding=1",
	} {
		sandbox.Run(t, strings.Fields(command)...)
	}
	t.Cleanup(func() { sandbox.Run(t, "ip", "netns", "delete", "far") })
	l.at = "far"
	l.serveISC("4", onLAN+"subnet 10.99.0.0 netmask 255.255.255.0 { }", "")
	l.serveISC("6", onLAN6+"subnet6 2001:db8:99::/64 { }", "")
	l.run("dhcpd", "Sending on   Socket/fallback", isc(t, "dhcrelay"), "-4", "-d", "--no-pid", "-id", "srv0", "-iu", "far0", "10.99.0.2")
	l.run("dhcpd", "Sending on   Socket/", isc(t, "dhcrelay"), "-6", "-d", "--no-pid", "-l", "2001:db8:77::1%srv0", "-u", "2001:db8:99::2%far0")
	l.ready()
	a := must[*api.Allocation](l.host)(l.setup6("db-1"))
	if all := a.Attachments[0].Addresses; len(all) != 2 || !strings.HasPrefix(all[1].String(), "2001:db8:77::") {
		t.Errorf("it has %v", all)
	}
	l.requireRoutes("default via 10.77.0.1")
	l.awaitTold("DHCPACK", 2)
	l.awaitLogged("Reply NA", 2)
	l.requireChecked("db-1")
	if err := l.client.Teardown(ctx, "db-1"); err != nil {
		t.Error(err)
	}
	l.awaitTold("DHCPRELEASE", 1)
	l.awaitLogged("releases address", 1)
}
