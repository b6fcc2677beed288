// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongVanished: a node is killed and replaced by another one of its name, which then leaves.
// Packets between the others are not lost, and nothing is left on the host. A block of the node that
// was killed is claimed by a third one, while packets are sent to it.
func TestLongVanished(t *testing.T) {
	s := withoutJob(t)
	c1, c2, c3 := lab.Clients[0], lab.Clients[1], lab.Clients[2]
	first := s.attach(c1, "first")
	s.senders = []*sender{s.sendOn(first, s.attach(c3, "third"), small)}
	s.controls = []*sender{s.control(0, 2)}
	killed := s.attach(c2, "killed")
	s.requireReach(first, killed)
	moving := s.sendOn(first, killed, small)
	nodes, err := lab.Nodes(c2)
	must(t, err)
	old := nodes[len(nodes)-1].ID

	var before string
	s.undisturbed("a node is killed and replaced", func() {
		c2.Off()
		t.Cleanup(func() { // allocations of other tests would be placed on it
			must(t, lab.API(http.MethodPost, "node/"+old+"/purge", nil, nil))
		})
		must(t, c2.Wipe("/"))
		must(t, lab.BootClient(c2))
		must(t, writeNetworks(c2))
		before = s.snapshot(c2)
		must(t, lab.StartNomad(c2))
		must(t, c2.StartAgent())
		must(t, cluster.Await("the new node is ready", func() error { return requireOther(c2, old) }))
		s.requireReach(first, s.attach(c2, "leaving"))
		s.count(c2)
		must(t, cluster.Await("packets to the old block come to the old address", func() error { return s.requireCounted(c2) }))
	})
	s.undisturbed("the blocks of the node that was killed are released", func() {
		s.run(c1, "allocnet ipam release --force --yes --node "+old)
		must(t, cluster.Await("its routes are gone", func() error { return requireGone(c1, old) }))
		s.count(c2)
	})
	s.undisturbed("a node leaves", func() {
		s.run(c2, "allocnet detach leaving")
		must(t, c2.Signal(cluster.Agent, unix.SIGTERM))
		must(t, cluster.Await("it leaves", func() error { // a host that is new keeps its blocks for 40 s
			_, err := c2.Run("allocnet", "cluster", "leave", "--yes")
			return err
		}))
		must(t, cluster.Await("nothing is left on "+c2.Name, func() error {
			if diff := gocmp.Diff(strings.Split(before, "\n"), strings.Split(s.snapshot(c2), "\n")); diff != "" {
				return fmt.Errorf("(-before +after):\n%s", diff)
			}
			return nil
		}))
	})
	s.undisturbed("a third node claims the block", func() { s.claim(c3, killed.addresses[small][0]) })
	s.senders = append(s.senders, moving)
	s.flowing()
	if err := s.requireCounted(c2); err == nil {
		t.Error("packets have come to the node that had the block, after its routes were gone")
	}
}

// requireOther is an error unless a machine is ready as another node than the old one.
func requireOther(m *cluster.Machine, old string) error {
	nodes, err := lab.Nodes(m)
	if err != nil {
		return err
	}
	if last := nodes[len(nodes)-1]; last.ID == old {
		return fmt.Errorf("the nodes of %s are %v, want another one than %s", m.Name, nodes, old)
	}
	return lab.RequireStatus(m, "ready")
}

// count begins to count the packets to allocations of the small network that come to a client which
// is not the host of their block.
func (s *scene) count(m *cluster.Machine) {
	s.Helper()
	s.run(m, "nft 'add table inet count; flush table inet count; add chain inet count in { type filter hook prerouting priority -300; }; add rule inet count in iifname mgmt ip daddr 10.99.0.0/27 counter'")
}

// requireCounted is an error unless there were such packets.
func (s *scene) requireCounted(m *cluster.Machine) error {
	out := s.run(m, "nft list chain inet count in")
	if !strings.Contains(out, "counter packets") || strings.Contains(out, "counter packets 0 ") {
		return fmt.Errorf("counted is %s, want packets", out)
	}
	return nil
}

// claim attaches allocations on a client until one has an address, of a block that the client has to
// claim: 40 s after another node had it.
func (s *scene) claim(m *cluster.Machine, address netip.Addr) {
	s.Helper()
	for i := range 24 {
		id := fmt.Sprintf("moved-%d", i)
		must(s, cluster.Await(id+" is attached", func() error {
			_, err := m.Run("allocnet", "attach", id, "--primary", small)
			return err
		}))
		if p := s.serve(m, id); p.addresses[small][0] == address {
			return
		}
	}
	s.Errorf("%s is not given out on %s", address, m.Name)
}

// requireGone is an error while a client has a route to blocks of a node.
func requireGone(m *cluster.Machine, node string) error {
	pool, err := statusOf(m, small)
	if err == nil && slices.ContainsFunc(pool.Nodes, func(n api.ClusterNode) bool { return n.ID == node }) {
		err = fmt.Errorf("%s has routes to %s: %+v", m.Name, node, pool)
	}
	return err
}

// varying is what differs from one boot to the next, or from one moment to the other.
var varying = regexp.MustCompile(`(?m)^(#|\*|:|COMMIT).*\n|^\d+: | expires \S+|\[\d+:\d+\]|@if\d+|link/ether \S+| link-netnsid \d+|fe80::\S+|(dev mgmt|dev vlan|dev lo).*`)

// snapshot is all that the agent could leave on a client.
func (s *scene) snapshot(m *cluster.Machine) string {
	s.Helper()
	return varying.ReplaceAllString(s.run(m, `ip -brief link show | cut -d' ' -f1
ip -4 route show table all | grep -v 'table local' || true
ip -6 route show table all | grep -v 'table local\|fe80\|ff00' || true
ip rule; ip -6 rule
ip neigh show nud permanent
bridge fdb show | grep -v 'dev mgmt\|dev vlan\|33:33\|01:00:5e' || true
iptables-save; ip6tables-save
find /var/lib/allocnet -name endpoint.json -o -path '/var/lib/allocnet/routes/*' 2>/dev/null || true`), "")
}
