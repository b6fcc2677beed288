// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package firewall

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
)

// withoutIPTables is a call on a host that has neither iptables nor firewalld.
func withoutIPTables(t *testing.T, verb, keys string) *plugin.Call {
	t.Helper()
	bus := busSocket
	t.Cleanup(func() { busSocket = bus })
	busSocket = filepath.Join(t.TempDir(), "missing")
	t.Setenv("PATH", t.TempDir())
	return &plugin.Call{
		Ctx: t.Context(), Verb: verb, Version: "1.0.0", Changes: &plugin.Changes{}, Repair: &remedy.Repair{},
		Config: fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", %s "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "web0"}], "ips": [{"address": "10.0.0.5/24"}]}}`, keys),
	}
}

// TestRootIngressWithoutIPTables: a bridge is separated by rules of nftables, which all its attachments share; without a policy none are made, as
// none could keep another table from dropping.
func TestRootIngressWithoutIPTables(t *testing.T) {
	roottest.Require(t)
	runtime.LockOSThread()
	if _, err := netns.New(); err != nil {
		t.Fatal(err)
	}
	commit := func(c *plugin.Call, do func(*plugin.Call) error, want int) {
		t.Helper()
		if err := do(c); err != nil || len(c.Changes.Rules.Changes) != want {
			t.Fatalf("%s: %d changes, %v, want %d", c.Verb, len(c.Changes.Rules.Changes), err, want)
		}
		for _, err := range plugin.Commit(t.Context(), nil, []*plugin.Changes{c.Changes}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	adding := func(c *plugin.Call) error {
		_, err := add(c)
		return err
	}
	commit(withoutIPTables(t, "ADD", ""), adding, 0)
	for policy, want := range map[string]int{"same-bridge": 2, "isolated": 3} {
		keys := fmt.Sprintf(`"ingressPolicy": %q,`, policy)
		commit(withoutIPTables(t, "ADD", keys), adding, 1)
		commit(withoutIPTables(t, "ADD", keys), adding, 0) // they are there
		commit(withoutIPTables(t, "CHECK", keys), repair, 1)
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, chain := range []string{fromBridge, toBridge} {
			rules, err := socket.List(ingressTable, chain)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rules {
				if strings.Contains(r.Comment(), policy+")") {
					got++
				}
			}
		}
		socket.Close()
		if got != want {
			t.Errorf("%s: %d rules, want %d", policy, got, want)
		}
	}
	refused := withoutIPTables(t, "ADD", `"iptablesAdminChainName": "OPS",`)
	if err := adding(refused); err == nil || !strings.Contains(err.Error(), "iptablesAdminChainName") {
		t.Errorf("a chain of iptables: %v", err)
	}
}

// TestRootDelWithoutIPTables: where firewalld has the addresses and iptables is not installed, there are no rules of iptables
// to remove.
func TestRootDelWithoutIPTables(t *testing.T) {
	roottest.Require(t)
	runtime.LockOSThread()
	if _, err := netns.New(); err != nil {
		t.Fatal(err)
	}
	bus := busSocket
	t.Cleanup(func() { busSocket = bus })
	busSocket = filepath.Join(t.TempDir(), "missing")
	t.Setenv("PATH", t.TempDir())
	c := &plugin.Call{Ctx: t.Context(), Version: "1.0.0", Changes: &plugin.Changes{}, Config: []byte(`{"cniVersion": "1.0.0", "name": "n", "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.5/24"}]}}`)}
	if err := del(c); err != nil {
		t.Fatal(err)
	}
	for _, err := range plugin.Commit(t.Context(), nil, []*plugin.Changes{c.Changes}) {
		if err != nil {
			t.Errorf("DEL: %v", err)
		}
	}
}
