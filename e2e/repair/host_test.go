// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package repair damages what allocations have on a real host, and has it repaired: the host
// has to be as it was, and established connections have to survive.
package repair

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainDivided(m.Run, sandbox.InstallIPAM, func() error { return sandbox.Install(filepath.Dir(binary), "allocnet") }))
}

// binary is allocnet. /run is the sandbox's.
const binary = "/run/allocnet"

// networks are those of a host. The backend of rules is inserted.
var networks = map[string]string{
	"web": `{"cniVersion": "1.0.0", "name": "web", "plugins": [
		{"type": "bridge", "bridge": "web0", "isGateway": true, "ipMasq": true, "ipMasqBackend": %[1]q, "hairpinMode": true,
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}], [{"subnet": "fd00:88::/64"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
		{"type": "firewall", "backend": "iptables", "ingressPolicy": "same-bridge"},
		{"type": "portmap", "backend": %[1]q, "snat": true, "capabilities": {"portMappings": true}}]}`,
	"peer": `{"cniVersion": "0.4.0", "name": "peer", "allocnet": {"routing": "source"}, "plugins": [
		{"type": "ptp", "ipMasq": true, "ipMasqBackend": %[1]q, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.90.0.0/16"}], [{"subnet": "fd00:90::/64"}]]}}]}`,
	"vlan": `{"cniVersion": "1.0.0", "name": "vlan", "plugins": [
		{"type": "macvlan", "master": "uplink", "mode": "bridge", "ipam": {"type": "host-local", "subnet": "10.91.0.0/16"}}]}`,
	"tuned": `{"cniVersion": "0.3.1", "name": "tuned", "disableCheck": true, "plugins": [
		{"type": "bridge", "bridge": "tuned0", "mtu": 1400, "ipam": {"type": "host-local", "subnet": "10.92.0.0/16"}},
		{"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1", "net.ipv4.ip_local_port_range": "10000 20000", "net.ipv4.conf.IFNAME.arp_announce": "0x2"}, "promisc": true, "txQLen": 500},
		{"type": "bandwidth", "ingressRate": 80000000, "ingressBurst": 800000, "egressRate": 80000000, "egressBurst": 800000}]}`,
}

// host is a host with allocations and a peer, which has no route to their addresses.
type host struct {
	testing.TB

	engine *hook.Engine
	dir    string
	// launcher is the command that executes the agent. Empty: none.
	launcher []string
}

const (
	hostAddress = "192.0.2.1"
	peerAddress = "192.0.2.2"
	outside     = "/run/netns/outside"
)

// newHost returns a host whose networks are executed as the executor says, with a backend of
// rules. Bridges and what rules share are there already.
func newHost(t testing.TB, executor, backend string) *host {
	t.Helper()
	h := &host{TB: t, dir: t.TempDir()}
	conf := h.conf()
	if err := os.Mkdir(conf, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range networks {
		if strings.Contains(text, "%") {
			text = fmt.Sprintf(text, backend)
		}
		sandbox.WriteFile(t, filepath.Join(conf, name+".conflist"), text)
	}
	var err error
	h.engine, err = hook.NewEngine(hook.Config{
		ConfDirs: []string{conf}, PluginDirs: []string{sandbox.PluginDir()}, StateDir: h.state(), Executor: executor,
	})
	if err != nil {
		t.Fatal(err)
	}
	shell(t, "nft flush ruleset; for i in web0 tuned0; do ip link del $i 2>/dev/null || :; done") // of an earlier host
	h.connectPeer()
	h.attach("warm", 8079, further...)
	h.detach("warm")
	h.awaitNoPairs()
	shell(t, "nft flush ruleset") // DEL makes tables of backends that are not used
	before := withoutRules(h.picture())
	t.Cleanup(func() {
		h.awaitNoPairs()
		after := h.picture()
		if diff := difference(before, withoutRules(after)); diff != "" {
			t.Errorf("the host is not as it was without allocations (-before +after):\n%s", diff)
		}
		if strings.Contains(after, "CNI-DN-") || masquerade.MatchString(after) {
			t.Errorf("rules are left:\n%s", after)
		}
	})
	return h
}

// masquerade is a rule of an attachment.
var masquerade = regexp.MustCompile(`ip6? saddr .* masquerade`)

func (h *host) conf() string { return filepath.Join(h.dir, "conf") }

func (h *host) state() string { return filepath.Join(h.dir, "state") }

func (h *host) connectPeer() {
	h.Helper()
	if _, err := netns.Create(netns.DefaultDir, filepath.Base(outside)); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		sandbox.Run(h, "ip", "link", "del", "outside0")
		sandbox.Run(h, "ip", "netns", "del", "outside")
	})
	h.run("ip link add outside0 type veth peer name eth0 netns outside")
	h.run("ip address add " + hostAddress + "/24 dev outside0")
	h.run("ip link set outside0 up")
	h.run("ip -n outside address add " + peerAddress + "/24 dev eth0")
	h.run("ip -n outside link set eth0 up")
}

func (h *host) run(command string) string {
	h.Helper()
	return sandbox.Run(h, strings.Fields(command)...)
}

// further are the networks beside web.
var further = []selection.Element{{Name: "peer", Interface: "peer0"}, {Name: "vlan", Interface: "vlan0"}, {Name: "tuned", Interface: "tuned0"}}

// attach attaches an allocation to the network web, with a published port, and to others.
func (h *host) attach(id string, port int, others ...selection.Element) *hook.Allocation {
	h.Helper()
	a, err := h.engine.Setup(context.Background(), hook.Request{
		ID: id, Primary: &selection.Element{Name: "web", Interface: "eth0", Ports: []string{"http"}},
		Networks: others,
		Ports:    []portmap.Port{{Label: "http", HostPort: port, To: 80, Protocol: "tcp"}},
	})
	if err != nil {
		h.Fatal(err)
	}
	return a
}

func (h *host) detach(id string) {
	h.Helper()
	if err := h.engine.Teardown(context.Background(), id); err != nil {
		h.Fatal(err)
	}
}

// made is what the kernel makes up, and differs when a link is made again.
var made = regexp.MustCompile(`(?m)^\d+: | id \d+| state \S+|index \d+ ref|,?(NO-CARRIER|LOWER_UP|M-DOWN)|handle [0-9a-f:]+`)

// peer is what the program bridge prints of a veth's other end: it takes the index in the other namespace for
// one of the host, which may be that of a bridge that is made again.
var peer = regexp.MustCompile(`@[^:\s]+`)

// picture returns what the host has, and what namespaces have.
func (h *host) picture(namespaces ...string) string {
	h.Helper()
	var b strings.Builder
	for _, section := range strings.Split(sandbox.Snapshot(h), "\n== ") {
		name, content, _ := strings.Cut(section, "\n")
		switch {
		case isOfRules(section):
			content = byChain(content)
		case strings.HasPrefix(name, "ip ") || strings.HasPrefix(name, "tc "):
			content = sorted(content)
		}
		fmt.Fprintf(&b, "\n== %s\n%s", name, content)
	}
	section := func(name, text string) { fmt.Fprintf(&b, "== %s\n%s\n", name, made.ReplaceAllString(text, "")) }
	section("ip routes of IPv6", sandbox.List(h, "").Routes(unix.AF_INET6, unix.RT_TABLE_MAIN))
	commands := []string{"sysctl -e net.ipv4.ip_forward net.ipv6.conf.all.forwarding net.ipv4.conf.web0.route_localnet"}
	for _, name := range namespaces {
		l := sandbox.List(h, name)
		section(name, strings.Join([]string{l.Addresses(), l.Routes(unix.AF_INET, unix.RT_TABLE_UNSPEC), l.Routes(unix.AF_INET6, unix.RT_TABLE_MAIN), l.Rules(unix.AF_INET)}, "\n"))
		settings := "ip netns exec " + name + " sysctl -e net.ipv4.conf net.ipv6.conf.eth0.accept_ra net.ipv6.conf.eth0.accept_dad"
		commands = append(commands, "ip -n "+name+" -o link", settings)
	}
	for _, command := range commands {
		section(command, sorted(h.run(command)))
	}
	section("bridge -d link", sorted(peer.ReplaceAllString(h.run("bridge -d -o link show"), "")))
	section("tc filters", h.filters())
	return made.ReplaceAllString(b.String(), "")
}

// filters are those of what comes from the links of attachments.
func (h *host) filters() string {
	h.Helper()
	links := regexp.MustCompile(`veth[0-9a-f]{8}|bwp[0-9a-f]{12}`).FindAllString(h.run("ip -br link"), -1)
	slices.Sort(links)
	var commands strings.Builder
	for _, link := range slices.Compact(links) {
		fmt.Fprintf(&commands, "filter show dev %s parent ffff:\n", link)
	}
	cmd := exec.Command("tc", "-batch", "-")
	cmd.Stdin = strings.NewReader(commands.String())
	out, err := cmd.Output()
	if err != nil {
		h.Fatal(err)
	}
	return string(out)
}

// withoutRules returns a picture without the rules: what attachments share stays.
func withoutRules(picture string) string {
	sections := strings.Split(picture, "\n== ")
	return strings.Join(slices.DeleteFunc(sections, isOfRules), "\n== ")
}

// isOfRules tells whether a section of a picture has rules.
func isOfRules(section string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(section), "\n")
	return strings.Contains(name, "tables-") || strings.HasPrefix(name, "nft ")
}

func sorted(text string) string {
	lines := strings.Split(made.ReplaceAllString(text, ""), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// byChain returns rules in the order of their chains: the order of these does not matter.
func byChain(text string) string {
	var table, chain string
	var lines []string
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "}":
			continue
		case words[0] == "table" || strings.HasPrefix(line, "*"):
			table, chain = line, ""
		case words[0] == "chain" || words[0] == "-A":
			chain = words[1]
		}
		if words[0] == "COMMIT" || strings.HasPrefix(line, ":") {
			chain = ""
			i = 0
		}
		lines = append(lines, fmt.Sprintf("%s %s %05d %s", table, chain, i, strings.Join(words, " ")))
	}
	slices.Sort(lines)
	for i, line := range lines {
		lines[i] = regexp.MustCompile(` \d{5} `).ReplaceAllString(line, " ")
	}
	return strings.Join(lines, "\n")
}

// requireSame compares the host with a picture.
func (h *host) requireSame(before string, namespaces ...string) {
	h.Helper()
	if diff := difference(before, h.picture(namespaces...)); diff != "" {
		h.Errorf("the host is not as it was (-before +after):\n%s", diff)
	}
}

// awaitNoPairs waits until the kernel has removed the links of allocations that are detached.
func (h *host) awaitNoPairs() {
	h.Helper()
	left := ""
	sandbox.Eventually(h, "the links of allocations go", func() bool {
		left = h.run("ip -br link")
		return !strings.Contains(left, "veth") && !strings.Contains(left, "bwp")
	}, func() string { return left })
}

// repair repairs all, or only reports with the mode.
func (h *host) repair(mode hook.RepairMode) []hook.Drift {
	h.Helper()
	drifts, err := h.engine.RepairAttachments(context.Background(), hook.RepairRequest{Mode: mode})
	if err != nil {
		h.Fatal(err)
	}
	return drifts
}

// missing returns all that is missing, as text.
func missing(drifts []hook.Drift) string {
	var lines []string
	for _, d := range drifts {
		lines = append(lines, d.Missing...)
		lines = append(lines, d.Unrepairable...)
		if d.Err != nil {
			lines = append(lines, d.Err.Error())
		}
	}
	return strings.Join(lines, "\n")
}

// connection is an established connection whose other end echoes.
type connection struct {
	name string
	net.Conn
}

// connect connects from one namespace to a listener of another.
func (h *host) connect(name, from, to, listen, dial string) connection {
	h.Helper()
	stream.Listen(h, to, listen)
	return h.dial(name, from, dial)
}

func (h *host) dial(name, from, to string) connection {
	h.Helper()
	c := connection{name: name}
	h.within(from, func() (err error) {
		c.Conn, err = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: -1}).Dial("tcp", to)
		return err
	})
	h.Cleanup(func() { _ = c.Close() })
	h.requireAlive(c)
	return c
}

func (h *host) within(path string, do func() error) {
	h.Helper()
	ns, err := netns.Open(path)
	if err != nil {
		h.Fatal(err)
	}
	defer ns.Close()
	if err := ns.Do(do); err != nil {
		h.Fatal(err)
	}
}

// requireAlive fails the test unless an established connection carries data.
func (h *host) requireAlive(c connection) {
	h.Helper()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		h.Fatal(err)
	}
	buffer := []byte{1}
	if _, err := c.Write(buffer); err != nil {
		h.Fatalf("connection %s: %v", c.name, err)
	}
	if _, err := c.Read(buffer); err != nil {
		h.Fatalf("connection %s: %v", c.name, err)
	}
	h.acknowledge(c)
}

// acknowledge sends what acknowledges the last byte now: where rules of NAT are gone for a moment, the host itself answers a
// later packet, and ends the connection.
func (h *host) acknowledge(c connection) {
	h.Helper()
	raw, err := c.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		h.Fatal(err)
	}
	failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	if err := errors.Join(failed, err); err != nil {
		h.Fatal(err)
	}
}

func shell(t testing.TB, command string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}
