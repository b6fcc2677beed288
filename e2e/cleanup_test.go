// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// leaky are networks that together use every plugin of the catalogue, with the elements
// that select them.
var leaky = map[string]struct{ plugins, publish string }{
	"masquerade":     {`{"type": "bridge", "bridge": "leak0", "isGateway": true, "ipMasq": true, "ipam": %s}`, ""},
	"masquerade-nft": {`{"type": "bridge", "bridge": "leak0", "isGateway": true, "ipMasq": true, "ipMasqBackend": "nftables", "ipam": %s}`, ""},
	"ptp":            {`{"type": "ptp", "ipMasq": true, "ipam": %s}`, ""},
	"ports": {`{"type": "bridge", "bridge": "leak0", "isGateway": true, "ipam": %s},
		{"type": "portmap", "capabilities": {"portMappings": true}}`, "8300:80"},
	"ports-nft": {`{"type": "bridge", "bridge": "leak0", "isGateway": true, "ipam": %s},
		{"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}}`, "8300:80"},
	"firewall":    {`{"type": "bridge", "bridge": "leak0", "ipam": %s}, {"type": "firewall"}`, ""},
	"tuning":      {`{"type": "bridge", "bridge": "leak0", "ipam": %s}, {"type": "tuning", "mtu": 1400, "sysctl": {"net.core.somaxconn": "500"}}`, ""},
	"bandwidth":   {`{"type": "bridge", "bridge": "leak0", "ipam": %s}, {"type": "bandwidth", "ingressRate": 1000000, "ingressBurst": 100000, "egressRate": 1000000, "egressBurst": 100000}`, ""},
	"macspoofchk": {`{"type": "bridge", "bridge": "leak0", "isGateway": true, "macspoofchk": true, "ipam": %s}`, ""},
	"macvlan":     {`{"type": "macvlan", "master": "uplink", "ipam": %s}`, ""},
	"everything": {`{"type": "bridge", "bridge": "leak0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": %s},
		{"type": "firewall"}, {"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}, {"type": "tuning", "mtu": 1400}`, "8300:80"},
}

// dualStack are addresses of both families, in a directory of their own.
const dualStack = `{"type": "host-local", "dataDir": "/run/leaky", "ranges": [[{"subnet": "10.95.0.0/16"}], [{"subnet": "fd00:95::/64"}]]}`

// damages are changes of a host before a teardown.
var damages = map[string]func(h *host, id string){
	"namespace gone":                  func(h *host, id string) { sandbox.Run(h.t, "ip", "netns", "del", id) },
	"namespace gone, plugins missing": func(h *host, id string) { sandbox.Run(h.t, "ip", "netns", "del", id); h.breakPlugins("") },
	"plugins missing":                 func(h *host, id string) { h.breakPlugins("") },
	"plugins fail":                    func(h *host, id string) { h.breakPlugins(failing) },
	"path is no longer a namespace":   func(h *host, id string) { sandbox.Run(h.t, "umount", "/run/netns/"+id) },
	"records and namespace gone":      func(h *host, id string) { h.loseRecords(id); sandbox.Run(h.t, "ip", "netns", "del", id) },
	"records, cache, namespace gone": func(h *host, id string) {
		h.loseCache(id)
		h.loseRecords(id)
		sandbox.Run(h.t, "ip", "netns", "del", id)
	},
	"interface gone and plugins fail ": func(h *host, id string) {
		sandbox.Run(h.t, "ip", "-n", id, "link", "del", "eth0")
		h.breakPlugins(failing)
	},
}

const failing = "#!/bin/sh\necho '{\"cniVersion\": \"1.0.0\", \"code\": 7, \"msg\": \"out of order\"}'\nexit 1\n"

func (h *host) loseRecords(id string) { _ = os.RemoveAll(filepath.Join(h.state, "allocations", id)) }

func (h *host) loseCache(id string) {
	sandbox.Run(h.t, "find", "/var/lib/cni/results", "-name", "*"+id+"*", "-delete")
}

// breakPlugins replaces all plugins by a program. An empty program removes them.
func (h *host) breakPlugins(program string) {
	h.t.Helper()
	links, _ := filepath.Glob(h.plugins + "/*")
	for _, link := range links {
		if err := os.Remove(link); err != nil {
			h.t.Fatal(err)
		}
		if program == "" {
			continue
		}
		if err := os.WriteFile(link, []byte(program), 0o700); err != nil {
			h.t.Fatal(err)
		}
	}
}

// ownPlugins gives the host a plugin directory that a test may break.
func (h *host) ownPlugins() {
	h.t.Helper()
	h.plugins = h.t.TempDir()
	h.onlyOwn = true
	real, _ := filepath.Glob(sandbox.PluginDir() + "/*")
	for _, path := range real {
		h.linkPlugins(filepath.Base(path))
	}
}

// linkPlugins puts reference plugins into the host's own plugin directory.
func (h *host) linkPlugins(names ...string) {
	h.t.Helper()
	for _, name := range names {
		if err := os.Symlink(filepath.Join(sandbox.PluginDir(), name), filepath.Join(h.plugins, name)); err != nil {
			h.t.Fatal(err)
		}
	}
}

// removePlugins removes plugins from the host's own plugin directory.
func (h *host) removePlugins(names ...string) {
	h.t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(h.plugins, name)); err != nil {
			h.t.Fatal(err)
		}
	}
}

// damagesFor returns the damages after which the network of an index is torn down. With iptables-legacy only the rules are others.
// With -short, a network has one of them, and the one with everything has all.
func damagesFor(network string, index int, backend string) []string {
	all := slices.Sorted(maps.Keys(damages))
	switch {
	case backend == "legacy":
		return []string{"namespace gone, plugins missing"}
	case testing.Short() && network != "everything":
		return []string{all[index%len(all)]}
	}
	return all
}

// TestForcedCleanup: after a set-up, a damage and a teardown, the host is as before.
func TestForcedCleanup(t *testing.T) {
	for _, backend := range []string{"nft", "legacy"} {
		t.Run(backend, func(t *testing.T) {
			t.Cleanup(func() { sandbox.FlushLegacy(t) })
			h := newHost(t)
			h.path = sandbox.PathOfIPTables(t, backend)
			names := slices.Sorted(maps.Keys(leaky))
			if testing.Short() && backend == "legacy" {
				names = []string{"everything", "ptp"}
			}
			h.warmLeaky(names...)
			for i, name := range names {
				t.Run(name, func(t *testing.T) {
					h.on(t).breakAndTearDown(leaky[name].plugins, leaky[name].publish, damagesFor(name, i, backend))
				})
			}
		})
	}
}

// warmLeaky creates what leaky networks share and keep, so that the snapshot before
// the test has it. The first has a gateway: the bridge plugin gives no address to a bridge that one
// without has left, because the MAC of a bridge without ports is zero until it is set.
func (h *host) warmLeaky(names ...string) {
	h.t.Helper()
	path := h.conf + "/80-leaky.conflist"
	for _, name := range append([]string{"masquerade"}, names...) {
		network := leaky[name]
		sandbox.WriteFile(h.t, path, sandbox.IPAM(h.t, fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "leaky", "plugins": [%s]}`, fmt.Sprintf(network.plugins, dualStack))))
		args := []string{"attach", "warm", "--primary", "leaky"}
		if network.publish != "" {
			args = append(args, "--publish", network.publish)
		}
		h.must(args...)
		h.must("detach", "warm")
	}
	h.before = sandbox.Snapshot(h.t)
}

// on returns the host for another test.
func (h *host) on(t *testing.T) *host {
	copied := *h
	copied.t = t
	return &copied
}

func (h *host) breakAndTearDown(plugins, publish string, kinds []string) {
	h.t.Helper()
	text := fmt.Sprintf(plugins, dualStack)
	sandbox.WriteFile(h.t, h.conf+"/80-leaky.conflist", sandbox.IPAM(h.t, fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "leaky", "plugins": [%s]}`, text)))
	args := []string{"leak", "--primary", "leaky"}
	if publish != "" {
		args = append(args, "--publish", publish)
	}
	for _, damage := range kinds {
		h.ownPlugins()
		h.attach(args...)
		damages[damage](h, "leak")
		if strings.HasPrefix(damage, "records") {
			h.must("cleanup", "leak")
		} else {
			h.must("detach", "leak")
		}
		sandbox.RequireSame(h.t, h.before)
		if leases := sandbox.Run(h.t, "find", "/run/leaky", "-name", "*95*"); leases != "" {
			h.t.Errorf("leases are left:\n%s", leases)
		}
		if h.t.Failed() {
			h.t.Fatalf("after %q", damage)
		}
	}
}

// TestRulesRemovedMeanwhile: another process, such as Nomad, removes the masquerade of
// an allocation after it was listed for removal.
func TestRulesRemovedMeanwhile(t *testing.T) {
	for _, backend := range []string{"nft", "legacy"} {
		t.Run(backend, func(t *testing.T) {
			t.Cleanup(func() { sandbox.FlushLegacy(t) })
			h := newHost(t)
			h.path = sandbox.PathOfIPTables(t, backend)
			h.warmLeaky()
			sandbox.WriteFile(t, h.conf+"/80-leaky.conflist", sandbox.IPAM(t, fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "leaky", "plugins": [%s]}`, fmt.Sprintf(leaky["masquerade"].plugins, dualStack))))
			h.attach("leak", "--primary", "leaky")
			damages["records and namespace gone"](h, "leak")
			for _, program := range []string{"iptables-" + backend, "ip6tables-" + backend} {
				h.removeBefore(program)
			}
			h.must("cleanup", "leak")
			sandbox.RequireSame(t, h.before)
		})
	}
}

// removeBefore has another program remove the masquerade before the transaction.
func (h *host) removeBefore(program string) {
	h.t.Helper()
	real, err := exec.LookPath(program + "-restore")
	if err != nil {
		h.t.Fatal(err)
	}
	script := fmt.Sprintf(`#!/bin/bash -eu
%[1]s -t nat -S POSTROUTING | grep -E -- '-j CNI-[0-9a-f]{24}$' | sed 's/^-A/%[1]s -t nat -D/' | sh -eu
%[1]s -t nat -S | grep -oE '^-N CNI-[0-9a-f]{24}$' | while read -r _ chain; do %[1]s -t nat -F "$chain"; %[1]s -t nat -X "$chain"; done
exec %[2]s "$@"
`, program, real)
	if err := os.WriteFile(filepath.Join(strings.Split(h.path, ":")[0], program+"-restore"), []byte(script), 0o700); err != nil {
		h.t.Fatal(err)
	}
}

// TestCardComesBack: a network card that was moved into a namespace returns to the host
// under its old name, even if the plugin cannot move it.
func TestCardComesBack(t *testing.T) {
	h := newHost(t)
	sandbox.Run(t, "ip", "link", "add", "card", "type", "veth", "peer", "name", "cable")
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "del", "card") })
	sandbox.WriteFile(t, h.conf+"/81-card.conflist", `{"cniVersion": "1.0.0", "name": "card", "plugins": [{"type": "host-device", "device": "card"}]}`)
	h.ownPlugins()
	h.attach("c1", "--networks", "card@data0")
	if out := sandbox.Run(t, "ip", "-n", "c1", "-br", "link"); !strings.Contains(out, "data0") {
		t.Fatalf("the card is not in the namespace:\n%s", out)
	}
	h.breakPlugins(failing)
	h.must("detach", "c1")
	sandbox.Run(t, "ip", "link", "show", "card")
	h.ownPlugins()
	for id, task := range map[string]string{
		"renamed": "ip -n renamed link set data0 down; ip -n renamed link set data0 name lan0",
		"another": "ip -n another link set data0 down; ip -n another link set data0 name lan0; ip -n another link add data0 type veth peer name zz",
	} {
		h.attach(id, "--networks", "card@data0")
		sandbox.Run(t, "sh", "-ec", task)
		h.must("detach", id)
		sandbox.Run(t, "ip", "link", "show", "card")
	}
	h.attach("clash", "--networks", "card@data0")
	sandbox.Run(t, "ip", "link", "add", "card", "type", "bridge")
	h.refuse(1, []string{"device card of the host is interface data0", "the host has another link card"}, "detach", "clash")
	sandbox.Run(t, "ip", "link", "del", "card")
	h.must("detach", "clash")
	sandbox.Run(t, "ip", "link", "show", "card")
}

// TestCardGetsItsSettingsBack: what several plugins have set of a card is undone in order.
func TestCardGetsItsSettingsBack(t *testing.T) {
	h := newHost(t)
	sandbox.Run(t, "ip", "link", "add", "tuned", "mtu", "1450", "type", "veth", "peer", "name", "cable")
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "del", "tuned") })
	sandbox.WriteFile(t, h.conf+"/81-tuned.conflist", `{"cniVersion": "1.0.0", "name": "tuned", "plugins": [{"type": "host-device", "device": "tuned"},
		{"type": "tuning", "dataDir": "/run/tuned", "mtu": 1400, "allmulti": true}, {"type": "tuning", "dataDir": "/run/tuned", "mtu": 1300}]}`)
	h.ownPlugins()
	before := sandbox.Run(t, "ip", "-d", "link", "show", "tuned")
	h.attach("tuned1", "--networks", "tuned@data0")
	if out := sandbox.Run(t, "ip", "-n", "tuned1", "link", "show", "data0"); !strings.Contains(out, "mtu 1300") {
		t.Fatalf("the second plugin has set nothing:\n%s", out)
	}
	h.must("check", "tuned1")
	h.must("detach", "tuned1")
	settings := regexp.MustCompile(`mtu \d+|promiscuity \d+|allmulti \d+`)
	after := sandbox.Run(t, "ip", "-d", "link", "show", "tuned")
	if got, want := settings.FindAllString(after, -1), settings.FindAllString(before, -1); !slices.Equal(got, want) {
		t.Errorf("it has %q, and had %q before", got, want)
	}
	if left, _ := filepath.Glob("/run/tuned*/*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	sandbox.Run(t, "rm", "-r", "/run/tuned", "/run/tuned-2") // which the plugin has made
}
