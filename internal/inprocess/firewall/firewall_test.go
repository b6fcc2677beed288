// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package firewall

import (
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/inprocess/rules/rulestest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestUnknownPolicy: DEL refuses it, as the reference plugin does, even if it has nothing to remove.
func TestUnknownPolicy(t *testing.T) {
	for policy, want := range map[string]string{"": "", "open": "", "same-bridge": "", "isolated": "", "closed": `unknown ingress policy: "closed"`} {
		err := del(&plugin.Call{Version: "1.0.0", Changes: &plugin.Changes{}, Config: []byte(`{"cniVersion": "1.0.0", "name": "n", "ingressPolicy": "` + policy + `"}`)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got the error %v, want %q", policy, err, want)
		}
	}
}

// testRules are those of an attachment of a bridge with an ingress policy.
func testFirewallRules(t *testing.T, policy string) []*rules.IPTables {
	t.Helper()
	conf := &config{IngressPolicy: policy}
	result := &current.Result{
		Interfaces: []*current.Interface{{Name: "br0"}},
		IPs:        []*current.IPConfig{{Address: rulestest.Network(t, "10.0.0.5/24")}},
	}
	ingress, err := conf.ingress(result)
	if err != nil {
		t.Fatal(err)
	}
	return append(conf.rules(result), ingress...)
}

// TestFirewallRules: what all share, the rules with the address, and those of the policy.
func TestFirewallRules(t *testing.T) {
	want := `-N CNI-FORWARD
-N CNI-ADMIN
-I FORWARD COMMENT -j CNI-FORWARD
-I CNI-FORWARD COMMENT -j CNI-ADMIN
-A CNI-FORWARD -d 10.0.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.0.0.5/32 -j ACCEPT
-N CNI-ISOLATION-STAGE-1
-N CNI-ISOLATION-STAGE-2
-I FORWARD -j CNI-ISOLATION-STAGE-1 COMMENT
-I CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -j CNI-ISOLATION-STAGE-2 COMMENT
-I CNI-ISOLATION-STAGE-1 -i br0 -o br0 -j DROP COMMENT
-A CNI-ISOLATION-STAGE-1 -j RETURN COMMENT
-I CNI-ISOLATION-STAGE-2 -o br0 -j DROP COMMENT
-A CNI-ISOLATION-STAGE-2 -j RETURN COMMENT
`
	text := ""
	for _, r := range testFirewallRules(t, "isolated") {
		text += rulestest.Text(r)
		if r.Table != "filter" || r.Chain != "" {
			t.Errorf("rules are in chain %q of table %s", r.Chain, r.Table)
		}
	}
	if diff := gocmp.Diff(want, text); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestSameBridge: the ports of a bridge reach each other, unless they are isolated.
func TestSameBridge(t *testing.T) {
	const dropped = "-i br0 -o br0 -j DROP"
	for policy, want := range map[string]bool{"same-bridge": false, "isolated": true} {
		all := testFirewallRules(t, policy)
		if got := strings.Contains(rulestest.Text(all[len(all)-1]), dropped); got != want {
			t.Errorf("%s: %s is %t, want %t", policy, dropped, got, want)
		}
	}
}

// TestRemovedRules: DEL removes the rules of each address, and CHECK of an attachment without one has nothing to compare.
func TestRemovedRules(t *testing.T) {
	for addresses, want := range map[string]int{"": 0, `{"address": "10.0.0.5/24"}, {"address": "fd00::5/64"}`: 2} {
		c := &plugin.Call{Ctx: t.Context(), Version: "1.0.0", Changes: &plugin.Changes{}, Config: []byte(`{"cniVersion": "1.0.0", "name": "n", "backend": "iptables", "prevResult": {"cniVersion": "1.0.0", "ips": [` + addresses + `]}}`)}
		if err := del(c); err != nil {
			t.Fatal(err)
		}
		removed := c.Changes.Rules.Changes
		if len(removed) != want {
			t.Errorf("%s: %d removals, want %d", addresses, len(removed), want)
		}
		for _, change := range removed {
			if !change.Remove || change.IPTables == nil || len(change.IPTables.Rules) != 2 {
				t.Errorf("%s: %+v", addresses, change)
			}
		}
		if _, err := add(c); err != nil || len(c.Changes.Rules.Changes) != 2*want {
			t.Errorf("%s: ADD: %v", addresses, err)
		}
	}
}

// TestRootSharedIsSeenByFirewall: see RequireSeen.
func TestRootSharedIsSeenByFirewall(t *testing.T) {
	roottest.Require(t)
	rulestest.RequireSeen(t, testFirewallRules(t, "open")[0])
}

// TestFirewallRefuses: what follows no other plugin, and a policy that has no bridge.
func TestFirewallRefuses(t *testing.T) {
	conf := &config{IngressPolicy: "isolated"}
	for want, interfaces := range map[string][]*current.Interface{"interface needs to be set": {}, "got nil interface": {nil}, "got empty bridge name": {{}}} {
		if _, err := conf.ingress(&current.Result{Interfaces: interfaces}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", interfaces, err, want)
		}
	}
	const withoutInterface = `, "ingressPolicy": "isolated", "prevResult": {"cniVersion": "1.0.0", "ips": []}`
	onlyAdd := func(c *plugin.Call) error {
		_, err := add(c)
		return err
	}
	for verb, do := range map[string]func(*plugin.Call) error{"ADD": onlyAdd, "a repair": repair} {
		c := &plugin.Call{Version: "1.0.0", Changes: &plugin.Changes{}, Config: []byte(`{"cniVersion": "1.0.0", "name": "n"}`)}
		if err := do(c); err == nil || !strings.Contains(err.Error(), "missing prevResult") {
			t.Errorf("%s without a result: %v", verb, err)
		}
	}
	c := &plugin.Call{Version: "1.0.0", Changes: &plugin.Changes{}, Config: []byte(`{"cniVersion": "1.0.0", "name": "n"` + withoutInterface + `}`)}
	if err := repair(c); err == nil || !strings.Contains(err.Error(), "interface needs to be set") {
		t.Errorf("a repair without an interface: %v", err)
	}
}
