// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestMasqueradeRemovalOfBoth: DEL removes the rules of both backends, whichever the configuration has now.
func TestMasqueradeRemovalOfBoth(t *testing.T) {
	for _, backend := range []string{iptablesBackend, nftablesBackend} {
		c := &ruleSet{}
		masquerade{&backend, []net.IPNet{address(t, "10.50.0.2/24"), address(t, "fd00::2/64")}, "net", "eth0", "id"}.remove(c)
		families, tables := 0, 0
		for _, r := range c.rules {
			if r.remove && r.iptables != nil {
				families++
			}
			if r.remove && r.nftables != nil {
				tables++
			}
		}
		if families != 2 || tables != 1 {
			t.Errorf("%s: removed are rules of %d families in iptables, and %d times in nftables: want 2 and 1", backend, families, tables)
		}
	}
}

// TestMasqueradeOwner: rules are those of one interface.
func TestMasqueradeOwner(t *testing.T) {
	r := masquerade{networks: []net.IPNet{address(t, "10.0.0.5/24")}, network: "net", ifName: "eth0", containerID: "id"}.nftables()
	comment := r.rules[0].Comment
	if !r.owns(comment) {
		t.Errorf("the attachment does not own the rule with the comment %q", comment)
	}
	if other := (masquerade{network: "net", ifName: "eth1", containerID: "id"}).nftables(); other.owns(comment) {
		t.Error("the attachment with another interface owns the rule")
	}
}

func TestMasqueradeComment(t *testing.T) {
	m := masquerade{network: `n"et`, ifName: "eth0", containerID: strings.Repeat("x", 200)}
	comment := m.comment("hash")
	if want := "hash, net: net, if: eth0, id: xxx"; !strings.HasPrefix(comment, want) || len(comment) != maxComment {
		t.Errorf("got %q with a length of %d, want %q and more up to %d", comment, len(comment), want, maxComment)
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
	m := masquerade{nil, []net.IPNet{address(t, "10.50.0.2/24")}, "net", "eth0", "id"}
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
		if err := legacy(t.Context(), program, "-N", m.iptables()[0].chain); err != nil {
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
func removeRules(ctx context.Context, m masquerade) error {
	c, errs := &ruleSet{}, make([]error, 1)
	m.remove(c)
	socket, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer socket.Close()
	(&rulesHost{ctx: ctx, socket: socket}).commit([]*ruleSet{c}, errs)
	return errs[0]
}
