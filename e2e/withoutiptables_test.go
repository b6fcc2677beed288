// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/doctor"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// hideIPTables has the host no program of iptables until the test ends: allocnet completes PATH, so that another PATH would hide none.
func hideIPTables(t *testing.T) {
	t.Helper()
	empty := t.TempDir() + "/empty"
	sandbox.WriteFile(t, empty, "")
	if err := os.Chmod(empty, 0o600); err != nil {
		t.Fatal(err)
	}
	var hidden []string
	for _, name := range []string{"iptables", "ip6tables", "iptables-nft", "iptables-legacy", "iptables-save", "iptables-restore", "ip6tables-restore", "ip6tables-save"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		program, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(hidden, program) {
			sandbox.Run(t, "mount", "--bind", empty, program)
			t.Cleanup(func() { sandbox.Run(t, "umount", program) })
			hidden = append(hidden, program)
		}
	}
	if path, err := exec.LookPath("iptables"); err == nil {
		t.Fatalf("the host still has %s", path)
	}
}

const walledNetwork = `{"cniVersion": "1.0.0", "name": "walled", "plugins": [
	{"type": "bridge", "bridge": "walled0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
	 "ipam": {"type": "host-local", "dataDir": "/run/walled", "ranges": [[{"subnet": "10.201.0.0/24"}], [{"subnet": "fd00:201::/64"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
	{"type": "firewall", "ingressPolicy": "same-bridge"}, {"type": "portmap", "capabilities": {"portMappings": true}}]}`

// TestWithoutIPTables: a host without any program of iptables attaches, publishes, masquerades, separates bridges, repairs, cleans up
// and collects with nftables alone, and doctor names the rule of another table that drops what firewall accepts elsewhere.
func TestWithoutIPTables(t *testing.T) {
	h := newHost(t)
	h.withoutPlugins()
	sandbox.WriteFile(t, h.conf+"/60-walled.conflist", walledNetwork)
	sandbox.WriteFile(t, h.conf+"/61-walled.conflist", strings.NewReplacer("walled", "fenced", "10.201.", "10.202.", "fd00:201", "fd00:202").Replace(walledNetwork))
	h.withoutRules()
	h.connectPeer()
	sandbox.Run(t, "ip", "route", "add", "default", "via", peerAddress)
	hideIPTables(t)
	h.attach("one", "--primary", "walled", "--publish", "8500:80")
	h.attach("two", "--primary", "fenced")
	serve(t, "/run/netns/one", ":80", "one here")
	require := func() {
		t.Helper()
		requireAnswer(t, "http://10.201.0.1:8500", "one here")
		if got := toldBy("/run/netns/one", peerAddress+":80"); got != routerAddress {
			t.Errorf("seen as %s, want the host's address", got)
		}
		if got := toldBy("/run/netns/two", "10.201.0.2:80"); !strings.Contains(got, "timeout") {
			t.Errorf("from another bridge: %s, want no answer", got)
		}
	}
	require()
	h.must("check", "one")
	sandbox.Run(t, "nft", "flush ruleset")
	h.must("repair")
	require()
	if left := h.allocnet("doctor", "--json").stdout; strings.Contains(left, "iptables") {
		t.Errorf("doctor misses iptables: %s", left)
	}
	requireDropNamed(t, h)
	h.loseRecords("two")
	h.loseCache("two")
	sandbox.Run(t, "ip", "netns", "delete", "two")
	h.must("gc")
	h.must("detach", "one")
	if rules := sandbox.Run(t, "nft", "list", "ruleset"); strings.Contains(rules, "10.201.0.2") || strings.Contains(rules, "10.202.0.2") {
		t.Errorf("rules are left:\n%s", rules)
	}
	sandbox.Run(t, "sh", "-ec", `ip link delete walled0; ip link delete fenced0; rm -rf /run/walled /run/fenced`)
}

// requireDropNamed has another program drop what is forwarded.
func requireDropNamed(t *testing.T, h *host) {
	t.Helper()
	sandbox.Run(t, "nft", `add table inet strict; add chain inet strict forward { type filter hook forward priority 10; policy drop; }`)
	defer sandbox.Run(t, "nft", "delete table inet strict")
	var report doctor.Report
	if err := json.Unmarshal([]byte(h.allocnet("doctor", "--json").stdout), &report); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool {
		return strings.Contains(f.Subject+f.Problem, "strict") && strings.Contains(f.Problem, `"walled"`)
	}) {
		t.Errorf("doctor does not name the table that drops: %+v", report.Findings)
	}
}
