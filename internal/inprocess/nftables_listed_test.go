// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"net"
	"strings"
	"testing"

	"github.com/google/nftables"
)

// payloadOf returns the message that adds a rule. The kernel lists rules in this form, with
// more attributes.
func payloadOf(t testing.TB, rule nftablesRule) []byte {
	t.Helper()
	b := &nftablesBatch{}
	b.addRule(masqueradeTable, rule)
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.messages[0].Data
}

func testNFTables(t testing.TB) *nftablesRules {
	t.Helper()
	ip, network, err := net.ParseCIDR("10.0.0.5/24")
	if err != nil {
		t.Fatal(err)
	}
	network.IP = ip
	return masquerade{networks: []net.IPNet{*network}, network: "net", ifName: "eth0", containerID: "id"}.nftables()
}

func TestListedRule(t *testing.T) {
	r := testNFTables(t)
	listed := newListedRule(payloadOf(t, r.rules[0]))
	if !r.owns(listed.comment()) {
		t.Errorf("the attachment does not own the rule with the comment %q", listed.comment())
	}
	if other := (masquerade{network: "net", ifName: "eth1", containerID: "id"}).nftables(); other.owns(listed.comment()) {
		t.Error("the attachment with another interface owns the rule")
	}
}

func TestSameRules(t *testing.T) {
	rules := masqueradeTable.chains[1].rules
	var listed []listedRule
	for _, rule := range rules {
		listed = append(listed, newListedRule(payloadOf(t, rule)))
	}
	other := append(listed[:2:2], newListedRule(payloadOf(t, testNFTables(t).rules[0])))
	for _, c := range []struct {
		name   string
		listed []listedRule
		want   bool
	}{
		{"same", listed, true},
		{"none", nil, false},
		{"one missing", listed[1:], false},
		{"one more", append(listed[:3:3], listed[0]), false},
		{"another order", []listedRule{listed[1], listed[0], listed[2]}, false},
		{"another rule", other, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sameRules(c.listed, rules, nftables.TableFamilyINet); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestMasqueradeComment(t *testing.T) {
	m := masquerade{network: `n"et`, ifName: "eth0", containerID: strings.Repeat("x", 200)}
	comment := m.comment("hash")
	if want := "hash, net: net, if: eth0, id: xxx"; !strings.HasPrefix(comment, want) || len(comment) != maxComment {
		t.Errorf("got %q with a length of %d, want %q and more up to %d", comment, len(comment), want, maxComment)
	}
}

func FuzzListedRule(f *testing.F) {
	f.Add(payloadOf(f, testNFTables(f).rules[0]))
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 8, 0, 7, 0, 0, 200, 'a', 'b'})
	f.Fuzz(func(t *testing.T, payload []byte) {
		rule := newListedRule(payload)
		_ = rule.comment()
		if sameRules([]listedRule{rule}, masqueradeTable.chains[1].rules, nftables.TableFamilyINet) {
			t.Errorf("%q is three rules", payload)
		}
	})
}
