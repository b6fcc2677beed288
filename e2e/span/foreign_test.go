// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongForeignRoute: a route of another program for the prefix of a block is reported, and never
// replaced. When it is gone, ours is back.
func TestLongForeignRoute(t *testing.T) {
	s := begin(t)
	const network = "routed-ptp"
	m, other := lab.Clients[0], lab.Clients[1]
	blocks := blocksOf(s, other, network)
	s.undisturbed("routes are replaced by those of another program", func() {
		for _, block := range blocks {
			s.run(m, "ip route replace $(ip route show "+block+" | sed 's/proto 172/proto static/')")
		}
		must(t, cluster.Await("the foreign route is reported", func() error { return requireState(m, network, other, blocks, "conflict") }))
	})
	for _, block := range blocks {
		if out := s.run(m, "ip route show "+block); !strings.Contains(out, "proto static") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s has the routes\n%swant that of the other program alone", block, out)
		}
	}
	s.during("the routes of the other program are deleted", func() {
		for _, block := range blocks {
			s.run(m, "ip route delete "+block+" proto static")
		}
		must(t, cluster.Await("our route is back", func() error { return requireState(m, network, other, blocks, "installed") }))
	})
}

// blocksOf returns the IPv4 blocks that a client has of a pool.
func blocksOf(s *scene, m *cluster.Machine, pool string) (blocks []string) {
	s.Helper()
	status, err := statusOf(m, pool)
	must(s, err)
	for _, block := range status.Blocks {
		if netip.MustParsePrefix(block).Addr().Is4() {
			blocks = append(blocks, block)
		}
	}
	return blocks
}
