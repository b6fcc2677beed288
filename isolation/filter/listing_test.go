// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// member is an attachment of a job; number tells it from others.
func member(number int, job, network string, level isolation.Level, bridge string) filter.Member {
	end := fmt.Sprintf("veth%08x", number)
	m := filter.Member{
		Member: isolation.Member{
			ID: fmt.Sprintf("id-%d", number), Network: network, Level: level, Namespace: "prod", Job: job, Group: "g", Link: bridge,
			Addresses: []netip.Addr{
				netip.AddrFrom4([4]byte{10, byte(number >> 16), byte(number >> 8), byte(number)}),
				netip.MustParseAddr(fmt.Sprintf("2001:db8::%x:%x", number>>16, number&0xffff)),
			},
		},
		End: end, Bridge: bridge, MAC: net.HardwareAddr{2, 0, 0, byte(number >> 16), byte(number >> 8), byte(number)}, Antispoof: level != isolation.None,
	}
	if bridge == "" {
		m.Link = end
	}
	return m
}

func cidrs(all ...string) (prefixes []netip.Prefix) {
	for _, p := range all {
		prefixes = append(prefixes, netip.MustParsePrefix(p))
	}
	return prefixes
}

// mixed is a state with everything in it.
func mixed() filter.State {
	return filter.State{
		Rules: isolation.Rules{
			Allow: []isolation.Allow{
				{Name: "web reaches db", From: isolation.Selector{Job: "web", Namespace: "prod"}, To: isolation.Selector{Job: "db"}, Ports: []isolation.Ports{{Protocol: "tcp", First: 5432, Last: 5432}, {Protocol: "udp", First: 1000, Last: 2000}}},
				{Name: "monitoring \u00e9", From: isolation.Selector{CIDRs: cidrs("192.0.2.0/24", "2001:db8:1::/48")}, To: isolation.Selector{Namespace: "pr*"}},
				{Name: "ping", To: isolation.Selector{Network: "s"}, Ports: []isolation.Ports{{Protocol: "icmp"}, {Protocol: "sctp"}}},
				{Name: "to the world", From: isolation.Selector{Job: "web"}, To: isolation.Selector{CIDRs: cidrs("198.51.100.0/24", "198.51.0.0/16", "0.0.0.0/0", "2000::/3")}},
				{Name: "to one", From: isolation.Selector{Job: "db"}, To: isolation.Selector{CIDRs: cidrs("198.51.100.128/25", "255.255.255.255/32")}},
			},
			Egress: []isolation.Egress{
				{Name: "batch", From: isolation.Selector{Job: "batch"}, To: isolation.Selector{CIDRs: cidrs("10.0.0.0/8", "fd00::/8")}, DNS: true},
				{Name: "batch to db", From: isolation.Selector{Job: "ba*"}, To: isolation.Selector{Job: "db"}, Ports: []isolation.Ports{{Protocol: "tcp"}}},
			},
		},
		Members: []filter.Member{
			member(1, "web", "s", isolation.Strict, "br0"), member(2, "db", "s", isolation.Strict, "br0"),
			member(3, "web", "n", isolation.Network, "br1"), member(4, "batch", "n", isolation.Network, "br1"),
			member(5, "batch", "o", isolation.None, "br2"), member(6, "db", "p", isolation.Strict, ""), member(7, "", "q", isolation.None, ""),
		},
	}
}

func source(s filter.State) filter.Source { return func() (filter.State, error) { return s, nil } }

// run executes a program. A test that has failed goes on: in another network namespace it may not end here.
func run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

// addBridges makes the bridges of a state.
func addBridges(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		run(t, "ip", "link", "add", name, "type", "bridge")
	}
}

func listTables(t testing.TB) string {
	t.Helper()
	return run(t, "nft", "-s", "list", "ruleset")
}

// requireComplete fails if anything of the state is missing.
func requireComplete(t testing.TB, s filter.State) {
	t.Helper()
	if lacks, err := kernel.Lacks(t.Context(), s); err != nil || len(lacks) > 0 {
		t.Errorf("missing is %v, %v", lacks, err)
	}
}

// TestRootLoadedAgain: the listing of nft can be loaded, and is the same then. Loaded on top of itself it has rules twice, which is
// noticed and repaired.
func TestRootLoadedAgain(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		addBridges(t, "br0", "br1", "br2")
		state := mixed()
		if err := kernel.Apply(t.Context(), source(state)); err != nil {
			return err
		}
		requireComplete(t, state)
		before := listTables(t)
		file := filepath.Join(t.TempDir(), "rules.nft")
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			return err
		}
		run(t, "nft", "flush", "ruleset")
		if lacks, err := kernel.Lacks(t.Context(), state); err != nil || len(lacks) != len(state.Members) {
			t.Errorf("after a flush missing is %v, %v", lacks, err)
		}
		run(t, "nft", "-f", file)
		if diff := cmp.Diff(before, listTables(t)); diff != "" {
			t.Errorf("loaded again: %s", diff)
		}
		requireComplete(t, state)
		run(t, "nft", "-f", file)
		if lacks, err := kernel.Lacks(t.Context(), state); err != nil || len(lacks) != len(state.Members) {
			t.Errorf("after loading it twice missing is %v, %v", lacks, err)
		}
		err := kernel.Apply(t.Context(), source(state))
		if diff := cmp.Diff(before, listTables(t)); diff != "" {
			t.Errorf("after repair: %s", diff)
		}
		return err
	})
}
