// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"slices"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// testTable has a chain of three rules, of different forms.
var testTable = &Table{Family: INet, Name: "t", Chains: []Chain{{Name: "c", Rules: []Rule{
	{Chain: "c", Comment: "first", Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte{unix.NFPROTO_IPV4}},
		&expr.Verdict{Kind: expr.VerdictReturn},
	}},
	{Chain: "c", Exprs: []expr.Any{
		&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte{10, 0, 0, 5}},
		&expr.Masq{},
	}},
	{Chain: "c", Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: "d"}}},
}}}}

// payloadOf returns the message that adds a rule. The kernel lists rules in this form, with
// more attributes.
func payloadOf(t testing.TB, rule Rule) []byte {
	t.Helper()
	b := &Batch{}
	b.addRule(testTable, rule)
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.messages[0].Data
}

func TestListedRule(t *testing.T) {
	rules := testTable.Chains[0].Rules
	listed := newListedRule(payloadOf(t, rules[0]))
	if listed.Comment() != "first" || !listed.Mentions("first") || listed.Mentions("firs") {
		t.Errorf("the comment is %q, want first", listed.Comment())
	}
	if jump := newListedRule(payloadOf(t, rules[2])); jump.Comment() != "" || !JumpTo("d")(jump) || JumpTo("e")(jump) || JumpTo("d")(listed) {
		t.Error("want the third rule to lead to d")
	}
}

func TestSameRules(t *testing.T) {
	rules := testTable.Chains[0].Rules
	var listed []ListedRule
	for _, rule := range rules {
		listed = append(listed, newListedRule(payloadOf(t, rule)))
	}
	for _, c := range []struct {
		name   string
		listed []ListedRule
		want   bool
	}{
		{"same", listed, true},
		{"none", nil, false},
		{"one missing", listed[1:], false},
		{"one more", append(slices.Clone(listed), listed[0]), false},
		{"another order", []ListedRule{listed[1], listed[0], listed[2]}, false},
		{"another rule", []ListedRule{listed[0], listed[1], listed[1]}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := SameRules(c.listed, rules, INet); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func FuzzListedRule(f *testing.F) {
	f.Add(payloadOf(f, testTable.Chains[0].Rules[0]))
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 8, 0, 7, 0, 0, 200, 'a', 'b'})
	f.Fuzz(func(t *testing.T, payload []byte) {
		rule := newListedRule(payload)
		_ = rule.Comment()
		if SameRules([]ListedRule{rule}, testTable.Chains[0].Rules, INet) {
			t.Errorf("%q is three rules", payload)
		}
	})
}
