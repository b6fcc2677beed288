// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"net"
	"slices"
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netfilter"
)

func address(t *testing.T, text string) net.IPNet {
	t.Helper()
	ip, network, err := net.ParseCIDR(text)
	if err != nil {
		t.Fatal(err)
	}
	return net.IPNet{IP: ip, Mask: network.Mask}
}

// changesOf returns changes of one attachment, all of IPv4.
func changesOf(remove bool, all ...*iptablesRules) iptablesChangeList {
	var list iptablesChangeList
	for _, r := range all {
		list = append(list, iptablesChange{iptablesRules: r, remove: remove})
	}
	return list
}

func testMasquerade(t *testing.T) []*iptablesRules {
	t.Helper()
	return masquerade{
		networks: []net.IPNet{address(t, "10.0.0.5/24"), address(t, "10.0.0.6/24"), address(t, "fd00::5/64")},
		network:  "net", ifName: "eth0", containerID: "id",
	}.iptables()
}

func testPortmap(t *testing.T) *iptablesRules {
	t.Helper()
	bit := defaultMarkBit
	conf := &portmapConfig{network: "net", containerID: "id", MarkMasqBit: &bit}
	conf.RuntimeConfig.PortMappings = []portMapping{{8080, 80, "tcp", ""}, {5353, 53, "udp", "192.0.2.1"}, {5353, 53, "udp", "fd00::1"}}
	return conf.iptables(address(t, "10.0.0.5/24"))
}

func testFirewall(t *testing.T, policy string) []*iptablesRules {
	t.Helper()
	conf := &firewallConfig{IngressPolicy: policy}
	result := &current.Result{
		Interfaces: []*current.Interface{{Name: "br0"}},
		IPs:        []*current.IPConfig{{Address: address(t, "10.0.0.5/24")}},
	}
	ingress, err := conf.ingress(result)
	if err != nil {
		t.Fatal(err)
	}
	return append(conf.rules(result), ingress...)
}

// The texts of transactions, without comments of rules.
func TestTransaction(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes iptablesChangeList
		want    string
	}{
		{"nothing", nil, ""},
		{"masquerade", changesOf(false, testMasquerade(t)[0]), `*nat
-N CNI-30e7440e95deb2a63c98a3df
-A CNI-30e7440e95deb2a63c98a3df -d 10.0.0.5/24 -j ACCEPT COMMENT
-A CNI-30e7440e95deb2a63c98a3df ! -d 224.0.0.0/4 -j MASQUERADE COMMENT
-A POSTROUTING -s 10.0.0.5 -j CNI-30e7440e95deb2a63c98a3df COMMENT
-A CNI-30e7440e95deb2a63c98a3df -d 10.0.0.6/24 -j ACCEPT COMMENT
-A POSTROUTING -s 10.0.0.6 -j CNI-30e7440e95deb2a63c98a3df COMMENT
COMMIT
`},
		{"masquerade of IPv6 removed", changesOf(true, testMasquerade(t)[1]), `*nat
-D POSTROUTING -s fd00::5 -j CNI-30e7440e95deb2a63c98a3df COMMENT
-F CNI-30e7440e95deb2a63c98a3df
-X CNI-30e7440e95deb2a63c98a3df
COMMIT
`},
		{"ports", changesOf(false, testPortmap(t)), `*nat
-C CNI-HOSTPORT-SETMARK COMMENT -j MARK --set-xmark 0x2000/0x2000
-C CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-C POSTROUTING COMMENT -j CNI-HOSTPORT-MASQ
-C PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-C OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-N CNI-DN-30e7440e95deb2a63c98a
-A CNI-DN-30e7440e95deb2a63c98a -p tcp --dport 8080 -s 10.0.0.5/24 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p tcp --dport 8080 -s 127.0.0.1 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p tcp --dport 8080 -j DNAT --to-destination 10.0.0.5:80
-A CNI-DN-30e7440e95deb2a63c98a -p udp --dport 5353 -d 192.0.2.1 -s 10.0.0.5/24 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p udp --dport 5353 -d 192.0.2.1 -s 127.0.0.1 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p udp --dport 5353 -d 192.0.2.1 -j DNAT --to-destination 10.0.0.5:53
-A CNI-HOSTPORT-DNAT COMMENT -m multiport -p tcp --destination-ports 8080 -j CNI-DN-30e7440e95deb2a63c98a
-A CNI-HOSTPORT-DNAT COMMENT -m multiport -p udp --destination-ports 5353,5353 -j CNI-DN-30e7440e95deb2a63c98a
COMMIT
`},
		{"firewall, and ports removed", append(changesOf(false, testFirewall(t, "")...), changesOf(true, testPortmap(t))...), `*filter
-C FORWARD COMMENT -j CNI-FORWARD
-C CNI-FORWARD COMMENT -j CNI-ADMIN
-A CNI-FORWARD -d 10.0.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.0.0.5/32 -j ACCEPT
COMMIT
*nat
-D CNI-HOSTPORT-DNAT COMMENT -m multiport -p tcp --destination-ports 8080 -j CNI-DN-30e7440e95deb2a63c98a
-D CNI-HOSTPORT-DNAT COMMENT -m multiport -p udp --destination-ports 5353,5353 -j CNI-DN-30e7440e95deb2a63c98a
-F CNI-DN-30e7440e95deb2a63c98a
-X CNI-DN-30e7440e95deb2a63c98a
COMMIT
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			transaction := c.changes.transaction(iptablesTables...)
			if diff := gocmp.Diff(c.want, withoutComments(transaction.String())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// withoutComments replaces the comments of rules.
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

// What is shared is made in the order in which the reference plugin makes it.
func TestSharedTransaction(t *testing.T) {
	var transaction iptablesTransaction
	for _, r := range testFirewall(t, "isolated") {
		for _, group := range r.shared {
			transaction.addGroup(group)
		}
	}
	want := `-N CNI-FORWARD
-N CNI-ADMIN
-I FORWARD COMMENT -j CNI-FORWARD
-I CNI-FORWARD COMMENT -j CNI-ADMIN
-N CNI-ISOLATION-STAGE-1
-N CNI-ISOLATION-STAGE-2
-I FORWARD -j CNI-ISOLATION-STAGE-1 COMMENT
-I CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -j CNI-ISOLATION-STAGE-2 COMMENT
-I CNI-ISOLATION-STAGE-1 -i br0 -o br0 -j DROP COMMENT
-A CNI-ISOLATION-STAGE-1 -j RETURN COMMENT
-I CNI-ISOLATION-STAGE-2 -o br0 -j DROP COMMENT
-A CNI-ISOLATION-STAGE-2 -j RETURN COMMENT
`
	if diff := gocmp.Diff(want, withoutComments(transaction.String())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Rules that an earlier attachment may have left are not added a second time.
func TestTransactionOfExistingRules(t *testing.T) {
	changes := changesOf(false, testFirewall(t, "")...)
	changes[0].exists = true
	if (&iptablesHost{ctx: t.Context()}).restore(&changes.transaction(iptablesTables...).Transaction) == nil {
		t.Error("the transaction would add them once more")
	}
}

func TestFamilies(t *testing.T) {
	var families []netfilter.Family
	for _, r := range testMasquerade(t) {
		families = append(families, r.family)
	}
	if !slices.Equal(families, iptablesFamilies) {
		t.Errorf("rules of the families %v, want one of each", families)
	}
}
