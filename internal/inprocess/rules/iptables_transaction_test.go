// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"net"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// changesOf returns changes of one attachment, all of IPv4.
func changesOf(remove bool, all ...*IPTables) iptablesChangeList {
	var list iptablesChangeList
	for _, r := range all {
		list = append(list, iptablesChange{IPTables: r, remove: remove})
	}
	return list
}

// testChain are rules of an attachment that has a chain of its own, with two groups that all share.
func testChain(family netfilter.Family) *IPTables {
	r := &IPTables{
		Family: family, Table: "nat", Chain: "CNI-DN-id", Comment: "dnat id",
		Shared: []Group{{
			Chains: []string{"CNI-MARK", "CNI-MASQ"},
			Rules: []Rule{
				{Chain: "CNI-MARK", Args: []string{"-m", "comment", "--comment", "a mark", "-j", "MARK", "--set-xmark", "0x2000/0x2000"}, Seen: netfilter.WithMark(0x2000)},
				{Chain: "CNI-MASQ", Args: []string{"-m", "mark", "--mark", "0x2000/0x2000", "-j", "MASQUERADE"}, Seen: netfilter.WithMark(0x2000)},
				{Chain: "POSTROUTING", First: true, Args: []string{"-m", "comment", "--comment", "to masquerade", "-j", "CNI-MASQ"}, Seen: netfilter.AllTo("CNI-MASQ", "comment")},
			},
		}, {
			Chains: []string{"CNI-DNAT"},
			Rules:  []Rule{{Chain: "PREROUTING", Args: []string{"-m", "addrtype", "--dst-type", "LOCAL", "-j", "CNI-DNAT"}, Seen: netfilter.AllTo("CNI-DNAT", "addrtype")}},
		}},
	}
	r.Add(Rule{Chain: r.Chain, Args: []string{"-p", "tcp", "--dport", "8080", "-s", "127.0.0.1", "-j", "CNI-MARK"}})
	r.Add(Rule{Chain: r.Chain, Args: []string{"-p", "tcp", "--dport", "8080", "-j", "DNAT", "--to-destination", "10.0.0.5:80"}})
	r.Add(Rule{Chain: r.Chain, Args: []string{"-p", "TCP", "--dport", "8080", "-j", "DNAT", "--to-destination", "10.0.0.5:80"}})
	r.Add(Rule{Chain: "CNI-DNAT", Args: []string{"-m", "comment", "--comment", r.Comment, "-m", "multiport", "-p", "tcp", "--destination-ports", "8080", "-j", r.Chain}})
	return r
}

// testAddress are rules of an attachment in the chain of others, by its address.
func testAddress() *IPTables {
	return &IPTables{
		Family: netfilter.IPv4, Table: "filter", Address: net.IPv4(10, 0, 0, 5),
		Shared: []Group{{
			Chains: []string{"CNI-FORWARD", "CNI-ADMIN"},
			Rules: []Rule{
				{Chain: "FORWARD", First: true, Args: []string{"-m", "comment", "--comment", "rules", "-j", "CNI-FORWARD"}, Seen: netfilter.AllTo("CNI-FORWARD", "comment")},
				{Chain: "CNI-FORWARD", First: true, Args: []string{"-m", "comment", "--comment", "overrides", "-j", "CNI-ADMIN"}, Seen: netfilter.AllTo("CNI-ADMIN", "comment")},
			},
		}},
		Rules: []Rule{
			{Chain: "CNI-FORWARD", Args: []string{"-d", "10.0.0.5/32", "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"}},
			{Chain: "CNI-FORWARD", Args: []string{"-s", "10.0.0.5/32", "-j", "ACCEPT"}},
		},
	}
}

// The texts of transactions, without comments of rules.
func TestTransaction(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes iptablesChangeList
		want    string
	}{
		{"nothing", nil, ""},
		{"a chain", changesOf(false, testChain(netfilter.IPv4)), `*nat
-C CNI-MARK -m comment --comment "a mark" -j MARK --set-xmark 0x2000/0x2000
-C CNI-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-C POSTROUTING -m comment --comment "to masquerade" -j CNI-MASQ
-C PREROUTING -m addrtype --dst-type LOCAL -j CNI-DNAT
-N CNI-DN-id
-A CNI-DN-id -p tcp --dport 8080 -s 127.0.0.1 -j CNI-MARK
-A CNI-DN-id -p tcp --dport 8080 -j DNAT --to-destination 10.0.0.5:80
-A CNI-DNAT -m comment --comment "dnat id" -m multiport -p tcp --destination-ports 8080 -j CNI-DN-id
COMMIT
`},
		{"rules in a chain of others, and a chain removed", append(changesOf(false, testAddress()), changesOf(true, testChain(netfilter.IPv4))...), `*filter
-C FORWARD -m comment --comment rules -j CNI-FORWARD
-C CNI-FORWARD -m comment --comment overrides -j CNI-ADMIN
-A CNI-FORWARD -d 10.0.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.0.0.5/32 -j ACCEPT
COMMIT
*nat
-D CNI-DNAT -m comment --comment "dnat id" -m multiport -p tcp --destination-ports 8080 -j CNI-DN-id
-F CNI-DN-id
-X CNI-DN-id
COMMIT
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			transaction := c.changes.transaction(iptablesTables...)
			if diff := gocmp.Diff(c.want, transaction.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestTransactionOfExistingRules that an earlier attachment may have left are not added a second time.
func TestTransactionOfExistingRules(t *testing.T) {
	changes := changesOf(false, testAddress())
	changes[0].exists = true
	if (&iptablesProgram{ctx: t.Context()}).restore(&changes.transaction(iptablesTables...).Transaction) == nil {
		t.Error("the transaction would add them once more")
	}
}
