// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
)

func load(t *testing.T, files map[string]string) []network {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	catalog, err := cniconf.Load(dir)
	if err != nil || len(catalog.Broken) > 0 {
		t.Fatal(err, catalog.Broken)
	}
	var networks []network
	for _, n := range catalog.Networks {
		networks = append(networks, describe(n))
	}
	return networks
}

var published = map[string]string{
	"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "bridge": "br0", "isGateway": true,
		"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/24"}], [{"subnet": "fd00::/64"}]]}}, {"type": "portmap"}]}`,
	"b.conflist": `{"cniVersion": "1.0.0", "name": "b", "plugins": [{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}}]}`,
}

func TestSettings(t *testing.T) {
	unmasqueraded := maps.Clone(published)
	unmasqueraded["a.conflist"] = strings.Replace(published["a.conflist"], `"portmap"`, `"portmap", "snat": false`, 1)
	networks := load(t, unmasqueraded)
	dir := t.TempDir()
	set := func(name, value string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	examine := func() string {
		r := &Report{}
		settings(r, networks, dir)
		var subjects []string
		for _, f := range r.Findings {
			subjects = append(subjects, f.Subject)
		}
		return strings.Join(subjects, " ")
	}
	set("net/ipv4/ip_forward", "0")
	set("net/ipv6/conf/all/forwarding", "0")
	set("net/ipv4/conf/all/rp_filter", "1")
	if got := examine(); got != "net.ipv4.ip_forward net.ipv6.conf.all.forwarding br_netfilter net.ipv4.conf.all.rp_filter" {
		t.Errorf("findings on %s", got)
	}
	set("net/ipv4/ip_forward", "1")
	set("net/ipv6/conf/all/forwarding", "1")
	set("net/ipv4/conf/all/rp_filter", "2")
	set("net/bridge/bridge-nf-call-iptables", "0")
	set("net/bridge/bridge-nf-call-ip6tables", "1")
	if got := examine(); got != "net.bridge.bridge-nf-call-iptables" {
		t.Errorf("findings on %s", got)
	}
	set("net/bridge/bridge-nf-call-iptables", "1")
	if got := examine(); !strings.HasSuffix(got, "/a.conflist") { // without hairpinMode
		t.Errorf("findings on %s", got)
	}
	for i := range networks {
		networks[i].hairpin = true
	}
	if got := examine(); got != "" {
		t.Errorf("findings on %s, want none", got)
	}
	set("net/bridge/bridge-nf-call-iptables", "0")
	unmasqueraded["a.conflist"] = strings.Replace(published["a.conflist"], `"portmap"`, `"portmap", "backend": "nftables"`, 1)
	networks = load(t, unmasqueraded)
	if got := examine(); !strings.Contains(got, "net.bridge.bridge-nf-call-iptables") {
		t.Errorf("with nftables findings on %s", got)
	}
	for port, want := range map[string]string{"": "net.bridge.bridge-nf-call-iptables", `, "portIsolation": true`: ""} {
		networks = load(t, map[string]string{"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge"` + port + `}, {"type": "firewall", "ingressPolicy": "isolated"}]}`})
		if got := examine(); got != want {
			t.Errorf("isolated%s: findings on %q", port, got)
		}
	}
	networks = load(t, published)
	if got := examine(); got != "" { // answers of a neighbour come back by the host
		t.Errorf("with snat findings on %s, want none", got)
	}
	set("net/ipv6/conf/all/forwarding", "0")
	for _, of := range []string{"all", "default"} {
		set("net/ipv6/conf/"+of+"/disable_ipv6", "1")
		if got := examine(); got != "net.ipv6.conf.default.disable_ipv6" { // forwarding is no help then
			t.Errorf("without IPv6 findings on %s", got)
		}
		set("net/ipv6/conf/"+of+"/disable_ipv6", "0")
	}
}

func TestOverlaps(t *testing.T) {
	r := &Report{}
	overlaps(r, load(t, published))
	if len(r.Findings) != 0 {
		t.Errorf("findings %+v, want none", r.Findings)
	}
	twin := map[string]string{"c.conflist": `{"cniVersion": "1.0.0", "name": "c", "plugins": [{"type": "bridge", "bridge": "br0",
		"ipam": {"type": "host-local", "subnet": "10.0.0.128/25"}}]}`}
	for name, text := range published {
		twin[name] = text
	}
	overlaps(r, load(t, twin))
	if len(r.Findings) != 2 || !strings.Contains(r.Findings[0].Problem, "br0") || !strings.Contains(r.Findings[1].Problem, "10.0.0.128/25") {
		t.Errorf("findings %+v, want the bridge and the subnet", r.Findings)
	}
}

// TestConditions: conditions with nftables are reported where another network with nftables does not have them.
func TestConditions(t *testing.T) {
	const conditions = `"backend": "nftables", "conditionsV4": ["ip", "saddr", "192.0.2.0/24"]`
	for other, want := range map[string][]string{
		conditions: nil, `"backend": "iptables"`: nil,
		`"backend": "nftables"`: {`conditions are of the published ports of all networks`},
	} {
		confs := map[string]string{}
		for name, portmap := range map[string]string{"a": conditions, "b": other} {
			confs[name+".conflist"] = fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [{"type": "macvlan"}, {"type": "portmap", %s}]}`, name, portmap)
		}
		r := &Report{}
		overlaps(r, load(t, confs))
		requireProblems(t, r, want...)
	}
}

func TestTooOld(t *testing.T) {
	for versions, want := range map[string]Severity{"0.1.0 0.2.0 0.3.1": Error, "0.4.0 1.0.0": Warning, "1.0.0 1.1.0": ""} {
		r := &Report{}
		tooOld(r, "bridge", strings.Fields(versions))
		got := Severity("")
		if len(r.Findings) > 0 {
			got = r.Findings[0].Severity
		}
		if got != want {
			t.Errorf("%s: %q, want %q", versions, got, want)
		}
	}
}
