// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestSpecification11: CNI plugins before 1.6.0 refuse a network of version 1.1.0 of the
// specification. The error names both versions.
func TestSpecification11(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/60-new.conflist", `{"cniVersion": "1.1.0", "name": "new", "plugins": [
		{"type": "macvlan", "master": "uplink", "ipam": {"type": "host-local", "dataDir": "/run/new", "ranges": [[{"subnet": "10.97.0.0/24"}]]}}]}`)
	defer os.RemoveAll("/run/new")
	if sandbox.PluginsHave(t, sandbox.Version11) {
		t.Attr("cni.version", "yes")
		h.attach("new", "--primary", "new")
		h.must("detach", "new")
		return
	}
	t.Attr("cni.version", "no")
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
	has := sandbox.PluginsHave(t, sandbox.Version11)
	t.Attr("cni.nftables", map[bool]string{true: "yes", false: "no"}[has])
	if native != has || legacy == has {
		t.Errorf("there are rules of iptables: %t, tables of nftables: %t", legacy, native)
	}
	h.must("detach", "new")
}
