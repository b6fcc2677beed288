// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package masquerade

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/flows/flowstest"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/inprocess/rules/rulestest"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestMasqueradeRemovalOfBoth: DEL removes the rules of both backends, whichever the configuration has now.
func TestMasqueradeRemovalOfBoth(t *testing.T) {
	c := &plugin.Call{Network: "net", IfName: "eth0", ContainerID: "id", Changes: &plugin.Changes{}}
	networks := []net.IPNet{rulestest.Network(t, "10.50.0.2/24"), rulestest.Network(t, "fd00::2/64")}
	Remove(c, networks)
	families, tables := 0, 0
	for _, r := range c.Changes.Rules.Changes {
		if r.Remove && r.IPTables != nil {
			families++
		}
		if r.Remove && r.NFTables != nil {
			tables++
		}
	}
	if families != 2 || tables != 1 {
		t.Errorf("removed are rules of %d families in iptables, and %d times in nftables: want 2 and 1", families, tables)
	}
	unknown := "ipfw"
	if err := Add(c, Options{Backend: &unknown}, networks); err == nil || err.Error() != `unknown ipmasq backend "ipfw"` {
		t.Errorf("an unknown backend: %v", err)
	}
}

// TestMasqueradeOwner: rules are those of one interface.
func TestMasqueradeOwner(t *testing.T) {
	r := attachment{networks: []net.IPNet{rulestest.Network(t, "10.0.0.5/24")}, network: "net", ifName: "eth0", containerID: "id"}.nftables()
	comment := r.Rules[0].Comment
	if !r.Owns(comment) {
		t.Errorf("the attachment does not own the rule with the comment %q", comment)
	}
	if other := (attachment{network: "net", ifName: "eth1", containerID: "id"}).nftables(); other.Owns(comment) {
		t.Error("the attachment with another interface owns the rule")
	}
}

func TestMasqueradeComment(t *testing.T) {
	m := attachment{network: `n"et`, ifName: "eth0", containerID: strings.Repeat("x", 200)}
	comment := m.comment("hash")
	if want := "hash, net: net, if: eth0, id: xxx"; !strings.HasPrefix(comment, want) || len(comment) != rules.MaxComment {
		t.Errorf("got %q with a length of %d, want %q and more up to %d", comment, len(comment), want, rules.MaxComment)
	}
}

// TestRootMasqueradeRemovalWithoutIPTables: on a host without the program iptables DEL of a network that
// masquerades succeeds, as that of the reference plugin, also if another program has made the old
// table nat. Rules that are in it are not left in silence.
func TestRootMasqueradeRemovalWithoutIPTables(t *testing.T) {
	roottest.Require(t)
	program, err := exec.LookPath("iptables-legacy")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XTABLES_LOCKFILE", t.TempDir()+"/lock")
	m := attachment{Options{}, []net.IPNet{rulestest.Network(t, "10.50.0.2/24")}, "net", "eth0", "id"}
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Close()
	err = within.Namespace(netns, func(ns.NetNS) error { // on one thread
		if err := legacy(t.Context(), program, "-S"); err != nil {
			return err
		}
		if err := removeRules(t.Context(), m); err != nil {
			t.Errorf("without rules: %v", err)
		}
		if err := ip.TeardownIPMasqForNetworks([]*net.IPNet{&m.networks[0]}, m.network, m.ifName, m.containerID); err != nil {
			t.Errorf("the reference: %v", err)
		}
		if err := legacy(t.Context(), program, "-N", m.iptables()[0].Chain); err != nil {
			return err
		}
		if err := removeRules(t.Context(), m); err == nil || !strings.Contains(err.Error(), "iptables") {
			t.Errorf("with a chain that is left: got the error %v, want one that names iptables", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func legacy(ctx context.Context, program string, args ...string) error {
	if out, err := exec.CommandContext(ctx, program, append([]string{"-t", "nat"}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// removeRules removes the rules from the namespace of this thread.
func removeRules(ctx context.Context, m attachment) error {
	c, errs := &plugin.Call{Network: m.network, IfName: m.ifName, ContainerID: m.containerID, Changes: &plugin.Changes{}}, make([]error, 1)
	Remove(c, m.networks)
	host := rules.Open(ctx, nil, []*rules.Set{&c.Changes.Rules})
	defer host.Close()
	host.Commit([]*rules.Set{&c.Changes.Rules}, errs)
	return errs[0]
}

// TestMasqueradedFlows: those that leave with the address of the attachment, and have no answer.
func TestMasqueradedFlows(t *testing.T) {
	m := attachment{networks: []net.IPNet{rulestest.Network(t, "10.88.0.3/16"), rulestest.Network(t, "fd00:88::3/64")}}
	got := flowstest.Wanted(m, map[string]netfilter.Flow{
		"to the outside":               flowstest.Of(unix.IPPROTO_UDP, "10.88.0.3:1000 198.51.100.1:53", "198.51.100.1:53 10.88.0.3:1000"),
		"to the outside by IPv6":       flowstest.Of(unix.IPPROTO_UDP, "[fd00:88::3]:1000 [2001:db8::9]:53", "[2001:db8::9]:53 [fd00:88::3]:1000"),
		"to a port of another network": flowstest.Of(unix.IPPROTO_UDP, "10.88.0.3:1000 192.0.2.1:8088", "10.90.0.4:80 10.88.0.3:1000"),
		"masqueraded":                  flowstest.Of(unix.IPPROTO_UDP, "10.88.0.3:1000 198.51.100.1:53", "198.51.100.1:53 192.0.2.1:1000"),
		"of another allocation":        flowstest.Of(unix.IPPROTO_UDP, "10.88.0.4:1000 198.51.100.1:53", "198.51.100.1:53 10.88.0.4:1000"),
		"of the host":                  flowstest.Of(unix.IPPROTO_UDP, "192.0.2.1:1000 198.51.100.1:53", "198.51.100.1:53 192.0.2.1:1000"),
		"to the host":                  flowstest.Of(unix.IPPROTO_UDP, "10.88.0.3:1000 192.0.2.1:53", "192.0.2.1:53 10.88.0.3:1000"),
		"in the network":               flowstest.Of(unix.IPPROTO_UDP, "10.88.0.3:1000 10.88.7.1:53", "10.88.7.1:53 10.88.0.3:1000"),
		"multicast":                    flowstest.Of(unix.IPPROTO_UDP, "10.88.0.3:1000 239.1.1.1:53", "239.1.1.1:53 10.88.0.3:1000"),
		"of another protocol":          flowstest.Of(unix.IPPROTO_ICMP, "10.88.0.3:1000 198.51.100.1:53", "198.51.100.1:53 10.88.0.3:1000"),
	})
	if want := []string{"to a port of another network", "to the outside", "to the outside by IPv6"}; !slices.Equal(got, want) {
		t.Errorf("wanted are %q, want %q", got, want)
	}
}

// TestEgressRules: packets of a family leave with its address, and those of the other as without.
func TestEgressRules(t *testing.T) {
	m := attachment{
		Options:  Options{Egress: Egress{netip.MustParseAddr("192.0.2.10")}},
		networks: []net.IPNet{rulestest.Network(t, "10.0.0.5/24"), rulestest.Network(t, "fd00::5/64")},
		network:  "net", ifName: "eth0", containerID: "id",
	}
	all := m.iptables()
	for i, want := range []string{"! -d 224.0.0.0/4 -j SNAT --to-source 192.0.2.10 COMMENT", "! -d ff00::/8 -j MASQUERADE COMMENT"} {
		if text := rulestest.Text(all[i]); !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %s", text, want)
		}
	}
	for i, want := range []string{"ip saddr 10.0.0.5 ip daddr != 10.0.0.0/24 snat ip to 192.0.2.10", "ip6 saddr fd00::5 ip6 daddr != fd00::/64 masquerade"} {
		if got := m.nftables().Rules[i].Text; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestMasqueradeRules: one chain for each family.
func TestMasqueradeRules(t *testing.T) {
	all := attachment{
		networks: []net.IPNet{rulestest.Network(t, "10.0.0.5/24"), rulestest.Network(t, "10.0.0.6/24"), rulestest.Network(t, "fd00::5/64")},
		network:  "net", ifName: "eth0", containerID: "id",
	}.iptables()
	want := []string{`-A CNI-30e7440e95deb2a63c98a3df -d 10.0.0.5/24 -j ACCEPT COMMENT
-A CNI-30e7440e95deb2a63c98a3df ! -d 224.0.0.0/4 -j MASQUERADE COMMENT
-A POSTROUTING -s 10.0.0.5 -j CNI-30e7440e95deb2a63c98a3df COMMENT
-A CNI-30e7440e95deb2a63c98a3df -d 10.0.0.6/24 -j ACCEPT COMMENT
-A POSTROUTING -s 10.0.0.6 -j CNI-30e7440e95deb2a63c98a3df COMMENT
`, `-A CNI-30e7440e95deb2a63c98a3df -d fd00::5/64 -j ACCEPT COMMENT
-A CNI-30e7440e95deb2a63c98a3df ! -d ff00::/8 -j MASQUERADE COMMENT
-A POSTROUTING -s fd00::5 -j CNI-30e7440e95deb2a63c98a3df COMMENT
`}
	for i, family := range rules.Families {
		if len(all) != 2 || all[i].Family != family || all[i].Chain != "CNI-30e7440e95deb2a63c98a3df" || all[i].Table != "nat" {
			t.Fatalf("rules are %+v", all)
		}
		if diff := gocmp.Diff(want[i], rulestest.Text(all[i])); diff != "" {
			t.Errorf("%s: -want +got:\n%s", family, diff)
		}
	}
}
