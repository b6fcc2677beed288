// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// measured reports whether this version of the CNI plugins has a property. `make matrix`
// writes it into docs/nomad.md if the test passes.
func measured(t *testing.T, property string, has bool) {
	t.Helper()
	t.Attr("cni."+property, map[bool]string{true: "yes", false: "no"}[has])
}

// TestSpecification11: CNI plugins before 1.6.0 refuse a network of version 1.1.0 of the
// specification. The error names both versions.
func TestSpecification11(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/60-new.conflist", `{"cniVersion": "1.1.0", "name": "new", "plugins": [
		{"type": "macvlan", "master": "uplink", "ipam": {"type": "host-local", "dataDir": "/run/new", "ranges": [[{"subnet": "10.97.0.0/24"}]]}}]}`)
	defer os.RemoveAll("/run/new")
	has := sandbox.PluginsHave(t, sandbox.Specification11)
	measured(t, "version", has)
	if has {
		h.attach("new", "--primary", "new")
		h.must("detach", "new")
		return
	}
	h.refuse(1, []string{`network "new"`, "incompatible CNI versions", `config is "1.1.0"`, `"1.0.0"`}, "attach", "new", "--primary", "new")
}

// TestNftablesBackend: CNI plugins before 1.6.0 ignore the backend nftables, and make their
// rules with iptables. Both are removed.
func TestNftablesBackend(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/60-new.conflist", `{"cniVersion": "1.0.0", "name": "new", "plugins": [
		{"type": "ptp", "ipMasq": true, "ipMasqBackend": "nftables", "ipam": {"type": "host-local", "dataDir": "/run/new", "ranges": [[{"subnet": "10.97.0.0/24"}]]}},
		{"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}}]}`)
	defer os.RemoveAll("/run/new")
	publish := func() { h.attach("new", "--primary", "new", "--publish", "8300:80") }
	publish()
	h.must("detach", "new")
	h.before = sandbox.Snapshot(t) // the tables remain
	publish()
	legacy := strings.Contains(sandbox.Run(t, "iptables-save"), "10.97.0.")
	native := strings.Contains(sandbox.Run(t, "nft", "list", "tables"), "cni_hostport")
	has := sandbox.PluginsHave(t, sandbox.NftablesBackend)
	measured(t, "nftables", has)
	if native != has || legacy == has {
		t.Errorf("there are rules of iptables: %t, tables of nftables: %t", legacy, native)
	}
	h.must("detach", "new")
}

// TestCheckOfPorts: before 1.3.0, portmap looks for the rules of an address in the tables of
// both families. check asks no plugins that it knows, and so tells about both.
func TestCheckOfPorts(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/60-both.conflist", `{"cniVersion": "1.0.0", "name": "both", "plugins": [
		{"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/both", "ranges": [[{"subnet": "10.97.0.0/24"}], [{"subnet": "fd00:97::/64"}]]}},
		{"type": "portmap", "capabilities": {"portMappings": true}}]}`)
	defer os.RemoveAll("/run/both")
	measured(t, "check-ports", sandbox.PluginsHave(t, sandbox.CheckOfPorts))
	publish := func(network string) { h.attach("p1", "--primary", network, "--publish", "8300:80") }
	publish("both")
	h.must("check", "p1")
	h.must("detach", "p1")
	h.before = sandbox.Snapshot(t) // the shared chains of IPv6 remain
	publish("web")
	h.must("check", "p1")
	sandbox.Run(t, "iptables", "-t", "nat", "-F", "CNI-HOSTPORT-DNAT")
	h.refuse(1, []string{"rule in chain CNI-HOSTPORT-DNAT of table nat of iptables", "allocnet repair p1"}, "check", "p1")
	h.must("detach", "p1")
}

// oldInnerMaster is what the refusal of a network with linkInContainer says.
var oldInnerMaster = []string{"plugins older than 1.3.0 ignore linkInContainer", "install newer CNI plugins"}

// TestInnerMaster: before 1.3.0, macvlan ignores linkInContainer, and looks for the master on
// the host. If the host has a link of that name, the allocation does not get an interface on
// it.
func TestInnerMaster(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/60-inner.conflist", `{"cniVersion": "1.0.0", "name": "inner", "plugins": [
		{"type": "macvlan", "master": "eth0", "linkInContainer": true}]}`)
	has := sandbox.PluginsHave(t, sandbox.InnerMaster)
	measured(t, "inner-master", has)
	attach := func(found string) {
		args := []string{"attach", "m1", "--primary", "storage", "--networks", "inner@net1"}
		if !has {
			h.refuse(1, append(oldInnerMaster, found), args...)
			return
		}
		h.must(args...)
		if link := sandbox.Run(t, "ip", "-n", "m1", "link", "show", "net1"); !strings.Contains(link, "net1@eth0") {
			t.Errorf("the master is not that of the namespace: %s", link)
		}
		h.must("detach", "m1")
	}
	attach("Link not found: the namespace has interface eth0")
	sandbox.Run(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0-peer")
	attach("took interface eth0 of the host as master")
	sandbox.Run(t, "ip", "link", "delete", "eth0")
}
