// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// listing has an allocation's chains, one of a chain whose comment lies, one
// with a foreign rule leading to it, and one with a rule that cannot be read.
var listing = `*nat
:POSTROUTING ACCEPT [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:` + masqueradeChain(a1) + ` - [0:0]
:` + portChain(a1) + ` - [0:0]
:` + masqueradeChain(a2) + ` - [0:0]
:` + masqueradeChain(a3) + ` - [0:0]
:` + masqueradeChain(a4) + ` - [0:0]
-A POSTROUTING -s 10.0.0.2/32 -m comment --comment "name: \"web\" id: \"a1\"" -j ` + masqueradeChain(a1) + `
-A POSTROUTING -s 10.0.0.9/32 -m comment --comment "name: \"web\" id: \"other\"" -j ` + masqueradeChain(a2) + `
-A POSTROUTING -s 10.0.0.3/32 -m comment --comment "name: \"web\" id: \"a3\"" -j ` + masqueradeChain(a3) + `
-A POSTROUTING -s 192.0.2.1/32 -j ` + masqueradeChain(a3) + `
-A POSTROUTING -s 10.0.0.4/32 -m comment --comment "name: \"web\" id: \"a4\"" -j ` + masqueradeChain(a4) + `
-A POSTROUTING -m comment --comment "open -j ` + masqueradeChain(a4) + `
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"web\" id: \"a1\"" -m multiport --dports 53 -j ` + portChain(a1) + `
-A ` + portChain(a1) + ` -p udp -m udp --dport 53 -j DNAT --to-destination 10.0.0.2:5353
COMMIT
*filter
:CNI-FORWARD - [0:0]
-A CNI-FORWARD -s 10.0.0.2/32 -j ACCEPT
-A CNI-FORWARD -d 10.0.0.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.0.0.0/24 -j ACCEPT
-A CNI-FORWARD -s 10.0.0.2/32 -j DROP
COMMIT
`

var (
	a1 = ownerOf("web", "a1", "")
	a2 = ownerOf("web", "a2", "")
	a3 = ownerOf("web", "a3", "")
	a4 = ownerOf("web", "a4", "")
)

func TestChains(t *testing.T) {
	rules := parseRules(listing, catalogue.mentions())
	problems := rules.problems
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "not closed") {
		t.Errorf("problems %v, want the open quote", problems)
	}
	var objects []Object
	for l := range catalogue.leaks() {
		objects = append(objects, l.objects(backends[0], rules)...)
	}
	type seen struct {
		Owner     Owner
		Addresses string
		Blocked   bool
	}
	got := map[string]seen{}
	for _, o := range objects {
		if o.addressOnly {
			continue
		}
		text := ""
		for _, a := range o.Addresses {
			text += a.String() + " "
		}
		got[o.key] = seen{o.Owner, text, o.Blocked != ""}
	}
	want := map[string]seen{
		masqueradeChain(a1): {a1, "10.0.0.2 ", false},
		portChain(a1):       {a1, "10.0.0.2 ", false},
		masqueradeChain(a2): {Owner{}, "10.0.0.9 ", true},
		masqueradeChain(a3): {a3, "10.0.0.3 192.0.2.1 ", true},
		masqueradeChain(a4): {a4, "10.0.0.4 ", true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, o := range objects {
		if o.key == portChain(a1) && (len(o.chain.udp) != 1 || o.chain.udp[0].first != 53 || o.chain.udp[0].last != 53) {
			t.Errorf("published UDP ports %+v, want 53", o.chain.udp)
		}
	}
	firewall := slices.DeleteFunc(objects, func(o Object) bool { return !o.addressOnly })
	if len(firewall) != 2 || firewall[0].Kind != Firewall {
		t.Errorf("%d rules of the firewall plugin, want the first two: %+v", len(firewall), firewall)
	}
}

func TestTransaction(t *testing.T) {
	var own []Object
	for l := range catalogue.leaks() {
		for _, o := range l.objects(backends[0], parseRules(listing, catalogue.mentions())) {
			if o.Owner == a1 || o.addressOnly {
				own = append(own, o)
			}
		}
	}
	got := transaction(own).String()
	want := `*filter
-D CNI-FORWARD -s 10.0.0.2/32 -j ACCEPT
-D CNI-FORWARD -d 10.0.0.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:` + masqueradeChain(a1) + ` - [0:0]
:` + portChain(a1) + ` - [0:0]
-D POSTROUTING -s 10.0.0.2/32 -m comment --comment "name: \"web\" id: \"a1\"" -j ` + masqueradeChain(a1) + `
-D CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"web\" id: \"a1\"" -m multiport --dports 53 -j ` + portChain(a1) + `
-X ` + masqueradeChain(a1) + `
-X ` + portChain(a1) + `
COMMIT
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestInstanceOwner(t *testing.T) {
	o := ownerOf("web", "a1", "eth0")
	table := masquerade.tables[0]
	for comment, want := range map[string]Owner{
		instance(o) + ", net: web, if: eth0, id: a1": o,
		instance(o) + ", net: web, if: eth0, id: a2": {}, // forged
		instance(o) + ", net: web, if: et":           {}, // truncated
	} {
		if got := table.object(Masquerade, nftRule{chain: "masq_checks", comment: comment, handle: 1}); got.Owner != want || got.key != instance(o) {
			t.Errorf("%q is of %+v by %q, want %+v", comment, got.Owner, got.key, want)
		}
	}
	objects := []Object{{Kind: Masquerade, key: instance(o)}, {Kind: Link, key: ifbDevice(o)}, {Kind: Ports, Owner: ownerOf("", "a1", "")}}
	attribute(catalogue, objects, []Owner{o})
	for _, object := range objects {
		if object.Owner.Network != "web" || object.Owner.Allocation != "a1" {
			t.Errorf("%+v is not attributed", object)
		}
	}
}

// The names that the reference plugins make.
func masqueradeChain(o Owner) string { return "CNI-" + hash(o.Network+o.ContainerID, 24) }
func portChain(o Owner) string       { return "CNI-DN-" + hash(o.Network+o.ContainerID, 21) }
func ifbDevice(o Owner) string       { return "bwp" + hash(o.Network+o.ContainerID, 12) }

// FuzzRules: whatever iptables-save prints, nothing of it is taken for an
// allocation's unless comment and chain agree, and only what was listed is
// deleted.
func FuzzRules(f *testing.F) {
	f.Add(listing)
	f.Add("*nat\n-A\n-A \n:CNI-")
	f.Fuzz(func(t *testing.T, text string) {
		parsed := parseRules(text, catalogue.mentions())
		for _, r := range parsed.rules {
			if r.words != nil && (len(r.words) < 2 || r.words[1] != r.chain) {
				t.Errorf("%q is a rule of chain %q, with words %q", r.line, r.chain, r.words)
			}
		}
		for l := range catalogue.leaks() {
			for _, o := range l.objects(backends[0], parsed) {
				requireListed(t, text, o)
			}
		}
	})
}

func requireListed(t *testing.T, text string, o Object) {
	t.Helper()
	if want := "CNI-FORWARD"; o.addressOnly {
		if o.chain.rules[0].chain != want || o.chain.name != "" || !strings.Contains(o.chain.rules[0].line, o.Addresses[0].String()) {
			t.Errorf("%+v is no rule of %s about one address", o, want)
		}
	} else if o.Owner.Allocation != "" && o.key != masqueradeChain(o.Owner) && o.key != portChain(o.Owner) {
		t.Errorf("%+v has the chain of another", o)
	}
	for line := range strings.Lines(transaction([]Object{o}).String()) {
		if rule, ok := strings.CutPrefix(line, "-D"); ok && !strings.Contains(text, "-A"+strings.TrimSuffix(rule, "\n")) {
			t.Errorf("%q was not listed", line)
		}
	}
}

// TestRangeOfPorts: the rule of a range has the allocation's address without a port, and all ports.
func TestRangeOfPorts(t *testing.T) {
	s := parseRules("*nat\n-A "+portChain(a1)+" -p udp -m udp --dport 10000:10199 -j DNAT --to-destination 10.0.0.2\n-A "+portChain(a1)+" -p udp -m udp --dport 7 -j DNAT --to-destination [fd00::2]:8\nCOMMIT\n", catalogue.mentions())
	want := []flow{{10000, 10199, netip.MustParseAddr("10.0.0.2")}, {7, 7, netip.MustParseAddr("fd00::2")}}
	if got := udpFlows(s.rules); !slices.Equal(got, want) {
		t.Errorf("flows %v, want %v", got, want)
	}
	if got := chainAddresses(s.rules, nil); len(got) != 2 || got[0] != want[0].address {
		t.Errorf("addresses %v", got)
	}
	for text, ok := range map[string]bool{"53": true, "1:2": true, "": false, "a": false, "1:": false, ":2": false} {
		if _, _, got := portsOf(text); got != ok {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// TestFlowsOfAnAddress: flows to other ports, and those that went elsewhere, are not its.
func TestFlowsOfAnAddress(t *testing.T) {
	f := flow{10000, 10199, netip.MustParseAddr("10.0.0.2")}
	ofTCP := aFlow(10000, "10.0.0.2")
	ofTCP.Protocol = unix.IPPROTO_TCP
	for want, all := range map[bool][]netfilter.Flow{
		true:  {aFlow(10000, "10.0.0.2"), aFlow(10199, "10.0.0.2")},
		false: {aFlow(9999, "10.0.0.2"), aFlow(10200, "10.0.0.2"), aFlow(10000, "10.0.0.3"), ofTCP},
	} {
		for _, one := range all {
			if f.has(one) != want {
				t.Errorf("%+v: want %t", one, want)
			}
		}
	}
}
