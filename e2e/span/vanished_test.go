// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestVanished: a node is killed and replaced by another one of its name, which then leaves.
// Packets between the others are not lost, and nothing is left on the host.
func TestVanished(t *testing.T) {
	s := withoutJob(t)
	c1, c2, c3 := lab.Clients[0], lab.Clients[1], lab.Clients[2]
	first := s.attach(c1, "first")
	s.senders = []*sender{sendOn(t, first, s.attach(c3, "third"), small)}
	s.requireReach(first, s.attach(c2, "killed"))
	old, err := lab.Nodes(c2)
	must(t, err)

	var before string
	s.undisturbed("a node is killed and replaced", func() {
		c2.Off()
		must(t, c2.Wipe("/"))
		must(t, lab.BootClient(c2))
		before = s.snapshot(c2)
		must(t, lab.StartNomad(c2))
		must(t, c2.StartAgent())
		must(t, lab.AwaitReady())
		s.requireReach(first, s.attach(c2, "leaving"))
	})
	s.undisturbed("the blocks of the node that was killed are released", func() {
		s.run(c1, "allocnet ipam release --force --yes --node "+old[len(old)-1].ID)
		must(t, cluster.Await("its routes are gone", func() error { return requireGone(c1, old[len(old)-1].ID) }))
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
