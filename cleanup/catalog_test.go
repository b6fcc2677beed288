// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/state"
)

// within returns the catalogue with its directories below one of the test's.
func (c catalog) within(root string) catalog {
	below := func(d directory) directory {
		var paths []string
		for _, path := range d.paths {
			paths = append(paths, root+path)
		}
		return directory{paths, d.configured, d.numbered}
	}
	moved := slices.Clone(c)
	for i := range moved {
		moved[i].leaves = slices.Clone(c[i].leaves)
		for j, l := range moved[i].leaves {
			if len(l.files)+len(l.leases) == 0 {
				continue
			}
			inRoot := *l
			inRoot.files, inRoot.leases = slices.Clone(l.files), slices.Clone(l.leases)
			for k := range inRoot.files {
				inRoot.files[k].in = below(inRoot.files[k].in)
			}
			for k := range inRoot.leases {
				inRoot.leases[k] = below(inRoot.leases[k])
			}
			moved[i].leaves[j] = &inRoot
		}
	}
	return moved
}

// leftover is an allocation with one attachment by the given plugins, whose
// namespace is gone.
func leftover(plugins string) state.Leftover {
	return state.Leftover{
		Allocation: state.Allocation{ID: "a1", Netns: "/run/netns/a1"},
		Suspects: []state.Suspect{{Attachment: state.Attachment{
			Network: "web", Interface: "eth0", ContainerID: "a1",
			ConfList: []byte(`{"cniVersion": "1.0.0", "name": "web", "plugins": [` + plugins + `]}`),
			Result:   []byte(`{"cniVersion": "1.0.0", "interfaces": [{"name": "veth1"}, {"name": "cni0"}], "ips": [{"address": "10.0.0.2/24"}]}`),
		}}},
	}
}

// TestHostEnd: of pairs the end is removed that has the MAC on record, also under an operator's name, and no other program's link
// of its name.
func TestHostEnd(t *testing.T) {
	const mac, other = "02:00:00:00:00:99", "02:00:00:00:00:98"
	for _, test := range []struct {
		name, mac string
		removed   bool
	}{{"veth0123abcd", mac, true}, {"veth0123abcd", other, false}, {"tap0", mac, true}} {
		f := newFakeSystem()
		f.linkTypes[test.name], f.macs = "veth", map[string]string{test.name: test.mac}
		l := leftover(`{"type": "bridge"}`)
		l.Suspects[0].Attachment.Result = []byte(`{"cniVersion": "1.0.0", "interfaces": [{"name": "veth0123abcd", "mac": "` + mac + `"}]}`)
		root := t.TempDir()
		c := Cleaner{CacheDir: root, host: f.host(catalogue.within(root))}
		if errs := c.Clean(t.Context(), []state.Leftover{l}); errs[0] != nil {
			t.Error(errs[0])
		}
		if got := slices.Contains(f.calls, "remove link veth "+test.name+" "+mac); got != test.removed {
			t.Errorf("%s with %s: calls %q, want it removed: %t", test.name, test.mac, f.calls, test.removed)
		}
	}
}

// TestCatalogue: Clean removes what each plugin writes for an allocation, and
// leaves the same of another one.
func TestCatalogue(t *testing.T) {
	for name, test := range map[string]struct {
		plugins string
		// write puts the objects of a1 and a2 on the host.
		write func(t *testing.T, f *fakeSystem, root string)
		// calls are those that removal makes; none names a2.
		calls []string
		// files are removed and kept.
		removed, kept string
	}{
		"bridge": {plugins: `{"type": "bridge", "ipMasq": true}`,
			write: func(_ *testing.T, f *fakeSystem, _ string) { f.saved["iptables-nft"] = listing },
			calls: []string{"-X " + masqueradeChain(a1), "-D POSTROUTING -s 10.0.0.2/32"}},
		"ptp": {plugins: `{"type": "ptp", "ipMasq": true}`,
			write: func(_ *testing.T, f *fakeSystem, _ string) { f.saved["iptables"] = listing },
			calls: []string{"-X " + masqueradeChain(a1)}},
		"portmap": {plugins: `{"type": "portmap"}`,
			write: func(_ *testing.T, f *fakeSystem, _ string) {
				f.saved["iptables-nft"], f.flows = listing, []netfilter.Flow{aFlow(53, "10.0.0.2")}
			},
			calls: []string{"-X " + portChain(a1), "-D CNI-HOSTPORT-DNAT", "forget flow 53 10.0.0.2"}},
		"firewall": {plugins: `{"type": "firewall"}`,
			write: func(_ *testing.T, f *fakeSystem, _ string) { f.saved["iptables-nft"] = listing },
			calls: []string{"-D CNI-FORWARD -s 10.0.0.2/32 -j ACCEPT", "-D CNI-FORWARD -d 10.0.0.2/32"}},
		"legacy tables": {plugins: `{"type": "bridge"}`,
			write: func(_ *testing.T, f *fakeSystem, _ string) {
				f.saved["iptables-legacy"], f.legacy = listing, "nat\n"
			},
			calls: []string{"iptables-legacy-restore *filter"}},
		"host-local": {plugins: `{"type": "macvlan", "ipam": {"type": "host-local"}}`,
			write: func(t *testing.T, _ *fakeSystem, root string) {
				dir := root + "/var/lib/cni/networks/web/"
				writeFile(t, dir+"lock", "")
				writeFile(t, dir+"10.0.0.2", "a1\r\neth0")
				writeFile(t, dir+"10.0.0.3", "a2\r\neth0")
			},
			removed: "/var/lib/cni/networks/web/10.0.0.2", kept: "/var/lib/cni/networks/web/10.0.0.3"},
		"allocnet-ipam": {plugins: `{"type": "macvlan", "ipam": {"type": "allocnet-ipam", "pool": "vlan100"}}`,
			write: func(t *testing.T, _ *fakeSystem, root string) {
				dir := root + "/var/lib/cni/networks/vlan100/"
				writeFile(t, dir+"lock", "")
				writeFile(t, dir+"10.0.0.2", "a1\r\neth0")
				writeFile(t, dir+"10.0.0.3", "a2\r\neth0")
			},
			removed: "/var/lib/cni/networks/vlan100/10.0.0.2", kept: "/var/lib/cni/networks/vlan100/10.0.0.3"},
		"bandwidth": {plugins: `{"type": "bandwidth"}`,
			write: func(_ *testing.T, f *fakeSystem, _ string) {
				f.linkTypes[ifbDevice(a1)], f.linkTypes[ifbDevice(a2)], f.linkTypes["ifb0"] = "ifb", "ifb", "ifb"
			},
			calls: []string{"remove link ifb " + ifbDevice(a1)}},
		"veth pair": {plugins: `{"type": "bridge"}`,
			write: func(_ *testing.T, f *fakeSystem, _ string) { f.linkTypes["veth1"] = "veth" },
			calls: []string{"remove link veth veth1"}},
		"tuning": {plugins: `{"type": "tuning"}`,
			write: func(t *testing.T, _ *fakeSystem, root string) {
				writeFile(t, root+"/run/cni/tuning/a1_eth0.json", "{}")
				writeFile(t, root+"/run/cni/tuning/a2_eth0.json", "{}")
			},
			removed: "/run/cni/tuning/a1_eth0.json", kept: "/run/cni/tuning/a2_eth0.json"},
		"a further tuning": {plugins: `{"type": "tuning"}`,
			write: func(t *testing.T, _ *fakeSystem, root string) {
				writeFile(t, root+"/run/cni/tuning-2/a1_eth0.json", "{}")
				writeFile(t, root+"/run/cni/tuning-2/a2_eth0.json", "{}")
			},
			removed: "/run/cni/tuning-2/a1_eth0.json", kept: "/run/cni/tuning-2/a2_eth0.json"},
		"beside those of tuning": {plugins: `{"type": "tuning"}`,
			write: func(t *testing.T, _ *fakeSystem, root string) {
				writeFile(t, root+"/run/cni/tuning-old/a1_eth0.json", "{}")
				if err := os.Symlink("tuning-old", root+"/run/cni/tuning-2"); err != nil {
					t.Fatal(err)
				}
			},
			kept: "/run/cni/tuning-old/a1_eth0.json"},
		"host-device": {plugins: `{"type": "host-device", "device": "lan0"}`,
			write: func(_ *testing.T, f *fakeSystem, _ string) { f.addNamespace("/run/netns/a1", "1", "10.0.0.2/24") },
			calls: []string{"return device lan0 eth0"}},
		"host-device without its namespace": {plugins: `{"type": "host-device", "device": "lan0"}`,
			write: func(*testing.T, *fakeSystem, string) {},
			calls: []string{"restore device lan0 eth0"}},
		"macvlan": {plugins: `{"type": "macvlan"}`,
			write: func(_ *testing.T, f *fakeSystem, _ string) { f.addNamespace("/run/netns/a1", "1", "10.0.0.2/24") },
			calls: []string{"remove interface eth0"}},
	} {
		t.Run(name, func(t *testing.T) {
			root, f := t.TempDir(), newFakeSystem()
			test.write(t, f, root)
			c := Cleaner{CacheDir: root, host: f.host(catalogue.within(root))}
			if errs := c.Clean(t.Context(), []state.Leftover{leftover(test.plugins)}); errs[0] != nil {
				t.Fatal(errs[0])
			}
			for _, call := range test.calls {
				if !f.made(call) {
					t.Errorf("no call %q among %q", call, f.calls)
				}
			}
			for _, other := range []Owner{a2, a3, a4} {
				if f.made(masqueradeChain(other)) || f.made(ifbDevice(other)) {
					t.Errorf("removes objects of %s: %q", other, f.calls)
				}
			}
			if test.removed != "" && exists(root+test.removed) || test.kept != "" && !exists(root+test.kept) {
				t.Errorf("want %s removed and %s kept", test.removed, test.kept)
			}
		})
	}
}

// TestCatalogueNftables: of the plugins' tables, the rules of the allocation go.
func TestCatalogueNftables(t *testing.T) {
	f := newFakeSystem()
	eth0 := func(id string) string {
		return instance(ownerOf("web", id, "eth0")) + ", net: web, if: eth0, id: " + id
	}
	masq := f.addTable("inet", "cni_plugins_masquerade", "masq_checks", eth0("a1"), eth0("a2"))
	ports := f.addTable("ip6", "cni_hostport", "hostports", "a1", "a2", "not an ID")
	spoof := f.addTable("bridge", "nat", "PREROUTING", "macspoofchk-a1-eth0", "macspoofchk-a2-eth0", "of another program")
	for _, chain := range []string{"cni-br-iface-a1-eth0", "cni-br-iface-a1-eth0-mac", "cni-br-iface-a2-eth0"} {
		spoof.add(chain, "")
	}
	c := Cleaner{CacheDir: t.TempDir(), host: f.host(catalogue.within(t.TempDir()))}
	for range 2 { // the second finds nothing to do
		if errs := c.Clean(t.Context(), []state.Leftover{leftover(`{"type": "bridge"}, {"type": "portmap"}`)}); errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	for _, fake := range []*fakeTable{masq, ports, spoof} {
		if rules := fake.String(); strings.Contains(rules, "a1") || !strings.Contains(rules, "a2") {
			t.Errorf("the rules are\n%s\nwant those of a2 only", rules)
		}
	}
}

// TestNewPlugin: one literal adds a plugin that makes a chain in nftables for each
// attachment, with a rule that leads to it, and a file.
func TestNewPlugin(t *testing.T) {
	root, f := t.TempDir(), newFakeSystem()
	own := hashedName{"VENDOR-", 16}
	c := catalog{{name: "vendor", leaves: []*leak{{
		kind: "vendor",
		tables: []nftTable{{
			family: netfilter.INet, name: "vendor", chains: []string{"marks"}, own: ownChains{own.prefix, []func(Owner) string{own.of}},
			comment: regexp.MustCompile(`^(?P<network>\w+)/(?P<id>\w+)$`),
		}},
		files: []filePattern{{
			in:   directory{paths: []string{root}},
			name: regexp.MustCompile(`^(?P<id>\w+)\.conf$`), want: "CONTAINERID.conf",
			key: func(o Owner) string { return o.ContainerID + ".conf" },
		}},
	}}}}
	rules := f.addTable("inet", "vendor", "marks")
	for _, o := range []Owner{a1, a2} {
		rules.add(own.of(o), "rule")
		rules.add("marks", o.Network+"/"+o.ContainerID)
		writeFile(t, filepath.Join(root, o.ContainerID+".conf"), "")
	}
	l := leftover(`{"type": "vendor"}`)
	l.Suspects[0].DelErr = errFake
	cleaner := Cleaner{CacheDir: t.TempDir(), host: f.host(c)}
	if errs := cleaner.Clean(t.Context(), []state.Leftover{l}); errs[0] != nil || !cleaner.Covers(l.Suspects[0].Attachment) {
		t.Errorf("%v, want the plugin covered", errs[0])
	}
	if left := rules.String(); strings.Contains(left, own.of(a1)) || strings.Contains(left, "/a1") || !strings.Contains(left, own.of(a2)) {
		t.Errorf("the table has\n%s\nwant nothing of a1", left)
	}
	if exists(filepath.Join(root, "a1.conf")) || !exists(filepath.Join(root, "a2.conf")) {
		t.Error("want the file of a1 removed, and that of a2 kept")
	}
}

// TestCatalogueIsDocumented: docs/cleanup.md has each plugin that leaves
// something, and those whose DEL may lie.
func TestCatalogueIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/cleanup.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z, -]+) \|.*\| (yes|no) \|$`).FindAllStringSubmatch(string(page), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			documented[name] = documented[name] || row[2] == "yes"
		}
	}
	known := map[string]bool{}
	for _, p := range catalogue {
		if len(p.leaves) > 0 || p.movesLink {
			known[p.name] = p.delMayLie
		}
	}
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("plugins of the catalogue, and of docs/cleanup.md: %s", diff)
	}
}

// TestSavedSettings: what the last plugin has found is given back first, wherever each keeps it.
func TestSavedSettings(t *testing.T) {
	conflist := []byte(`{"plugins": [{"type": "host-device"}, {"type": "tuning"}, {"type": "portmap", "dataDir": "/x"}, {"type": "tuning", "dataDir": "/run/cni/tuning-2"}]}`)
	want := []string{"/run/cni/tuning-2/a1_net1.json", "/run/cni/tuning/a1_net1.json"}
	if got := savedSettings(conflist, ownerOf("card", "a1", "net1")); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
