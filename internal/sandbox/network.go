// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
)

// Conf is a CNI configuration directory of real networks: web, a bridge with NAT, port
// mappings, firewall and the default route; storage, a bridge with IPv4 and IPv6;
// peer, a ptp network with NAT; vlan, a macvlan on a link of its own; fixed, a
// bridge whose addresses and MACs the job chooses.
var conf = map[string]string{
	"10-web.conflist": `{"cniVersion": "1.0.0", "name": "web", "plugins": [
		{"type": "bridge", "bridge": "web0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		{"type": "firewall"},
		{"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}]}`,
	"20-storage.conflist": `{"cniVersion": "1.0.0", "name": "storage", "plugins": [
		{"type": "bridge", "bridge": "storage0", "mtu": 1500,
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.89.0.0/16"}], [{"subnet": "fd00:89::/64"}]]}}]}`,
	"30-peer.conf": `{"cniVersion": "0.4.0", "name": "peer", "type": "ptp", "ipMasq": true,
		"ipam": {"type": "host-local", "subnet": "10.90.0.0/16"}}`,
	"40-vlan.conflist": `{"cniVersion": "1.1.0", "name": "vlan", "plugins": [
		{"type": "macvlan", "master": "uplink", "mode": "bridge",
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.91.0.0/16"}]]}}]}`,
	"50-fixed.conflist": `{"cniVersion": "0.3.1", "name": "fixed", "plugins": [
		{"type": "bridge", "bridge": "fixed0", "capabilities": {"mac": true, "ips": true},
		 "ipam": {"type": "static"}}]}`,
}

// WriteConf writes the CNI configuration directory of a sandbox and returns its path.
func WriteConf(t testing.TB) string {
	t.Helper()
	dir, state := t.TempDir(), t.TempDir()
	for name, text := range conf {
		if !PluginsHave(t, Specification11) {
			text = strings.Replace(text, `"cniVersion": "1.1.0"`, `"cniVersion": "1.0.0"`, 1)
		}
		if usesOwnIPAM() {
			text = withOwnIPAM(t, text, state, "")
		}
		WriteFile(t, filepath.Join(dir, name), text)
	}
	return dir
}

// WriteFile writes a file, or fails the test.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// SpoilLines removes the beginning of the lines of a file that contain the words.
func SpoilLines(t testing.TB, path, words string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	spoiled := 0
	for i, line := range lines {
		if strings.Contains(line, words) {
			lines[i] = line[min(10, len(line)-1):]
			spoiled++
		}
	}
	if spoiled == 0 {
		t.Fatalf("no line of %s has %q", path, words)
	}
	WriteFile(t, path, strings.Join(lines, ""))
}

// uplink makes the link that the network "vlan" needs.
func uplink() error {
	return RunAll("ip link add uplink type veth peer name wire", "ip link set uplink up", "ip link set wire up")
}

// warmed are the networks of a configuration that Warm has set up in this sandbox.
var warmed = map[string]bool{}

// guard makes the table that keeps packets from elsewhere from 127.0.0.0/8, which stays, too.
const guard = `add table ip allocnet_loopback; flush table ip allocnet_loopback
table ip allocnet_loopback {
	comment "nothing from elsewhere to 127.0.0.0/8"
	chain prerouting {
		type filter hook prerouting priority raw; policy accept;
		iifname != "lo" ip daddr 127.0.0.0/8 ip saddr 127.0.0.0/8 fib saddr . iif oif exists return
		iifname != "lo" ip daddr 127.0.0.0/8 fib daddr . iif type != local drop
	}
}`

// Warm sets every network up and down with libcni alone, so that what the
// plugins make once and keep, such as bridges and shared chains, is there. Networks that were
// warmed before still have it, unless all rules have been flushed since.
func Warm(t testing.TB, confDir string) {
	t.Helper()
	what := listFiles(t, confDir)
	what = regexp.MustCompile(`"stateDir":[^,]*,`).ReplaceAllString(strings.ReplaceAll(what, confDir, ""), "")
	if warmed[what] {
		return
	}
	defer func() { warmed[what] = !t.Failed() }()
	path, err := netns.Create(netns.DefaultDir, "warm")
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(path) //nolint:errcheck // the snapshots would show it
	p := NewPlain(t, confDir)
	Run(t, "nft", guard)
	for _, err := range []error{p.AddSequential(len(p.lists), "warm", path), p.DelSequential(len(p.lists), "warm", path)} {
		if err != nil {
			t.Fatalf("warm up: %v", err)
		}
	}
	awaitNoPairs(t)
}

// awaitNoPairs waits for the kernel to remove the host's ends of the pairs
// whose namespaces are gone, which takes it a moment.
func awaitNoPairs(t testing.TB) {
	t.Helper()
	left := ""
	Eventually(t, "the links of an earlier test go", func() bool {
		left = Run(t, "ip", "-brief", "link", "show", "type", "veth")
		return !strings.Contains(left, "veth")
	}, func() string { return left })
}

// Plain drives the networks of a CNI configuration directory with libcni alone.
type Plain struct {
	cni   *libcni.CNIConfig
	lists []*libcni.NetworkConfigList
}

// NewPlain reads the networks in the order of their files.
func NewPlain(t testing.TB, confDir string) *Plain {
	t.Helper()
	p := &Plain{cni: libcni.NewCNIConfig([]string{PluginDir()}, nil)}
	files, err := libcni.ConfFiles(confDir, []string{".conflist", ".conf"})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		list, err := loadList(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		p.lists = append(p.lists, list)
	}
	return p
}

func loadList(file string) (*libcni.NetworkConfigList, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return cniconf.ParseList(data)
}

// AddSequential runs ADD for the first k networks, one after the other.
func (p *Plain) AddSequential(k int, id, path string) error {
	return p.each(1, k, func(i int) error { return p.add(i, id, path) })
}

// AddParallel runs ADD for the first k networks at once.
func (p *Plain) AddParallel(k int, id, path string) error {
	return p.each(k, k, func(i int) error { return p.add(i, id, path) })
}

// DelSequential runs DEL for the first k networks, one after the other.
func (p *Plain) DelSequential(k int, id, path string) error {
	return p.each(1, k, func(i int) error { return p.del(i, id, path) })
}

// DelParallel runs DEL for the first k networks at once.
func (p *Plain) DelParallel(k int, id, path string) error {
	return p.each(k, k, func(i int) error { return p.del(i, id, path) })
}

func (p *Plain) each(width, k int, call func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(width)
	for i := range k {
		group.Go(func() error { return call(i) })
	}
	return group.Wait()
}

func (p *Plain) add(i int, id, path string) error {
	_, err := p.cni.AddNetworkList(context.Background(), p.lists[i], p.runtimeConf(id, path, i))
	return err
}

func (p *Plain) del(i int, id, path string) error {
	return p.cni.DelNetworkList(context.Background(), p.lists[i], p.runtimeConf(id, path, i))
}

func (p *Plain) runtimeConf(id, path string, i int) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: id, NetNS: path, IfName: fmt.Sprintf("eth%d", i),
		CapabilityArgs: map[string]any{
			"ips":          []string{"10.92.0.250/16"},
			"portMappings": []map[string]any{{"hostPort": 4000, "containerPort": 80, "protocol": "tcp"}},
		},
	}
}
