// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package rulestest helps the tests of plugins with the rules that these leave to be committed: it prints them, and requires
// that those which all attachments share are recognized.
package rulestest

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Text returns rules as lines of iptables-restore, in the order in which they are made: what is shared, then those of the
// attachment. COMMENT stands for each comment.
func Text(r *rules.IPTables) string {
	all := shared(r)
	add(all, r.Rules)
	return withoutComments(all.String())
}

// shared returns what makes the rules that all attachments share.
func shared(r *rules.IPTables) *netfilter.Transaction {
	all := &netfilter.Transaction{}
	for _, group := range r.Shared {
		for _, chain := range group.Chains {
			all.Line("-N", chain)
		}
		add(all, group.Rules)
	}
	return all
}

func add(t *netfilter.Transaction, all []rules.Rule) {
	for _, rule := range all {
		verb := "-A"
		if rule.First {
			verb = "-I"
		}
		t.Line(verb, rule.Chain, rule.Args...)
	}
}

func withoutComments(text string) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		words, _ := netfilter.Split(line)
		if i := slices.Index(words, "--comment"); i > 1 {
			words = slices.Replace(words, i-2, i+2, "COMMENT")
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

// Network returns an address with the length of its prefix.
func Network(t *testing.T, text string) net.IPNet {
	t.Helper()
	ip, network, err := net.ParseCIDR(text)
	if err != nil {
		t.Fatal(err)
	}
	return net.IPNet{IP: ip, Mask: network.Mask}
}
