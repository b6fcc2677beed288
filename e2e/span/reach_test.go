// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
)

// TestReach: each of nine allocations reaches each other one on each network, by IPv4 and
// IPv6, with writes of 64 KiB, and is seen with its own address.
func TestReach(t *testing.T) {
	s := take(t)
	s.runJob()
	s.requireAll()
}

// requireAll: each peer reaches all others.
func (s *scene) requireAll() {
	s.Helper()
	var group errgroup.Group
	group.SetLimit(3)
	for _, p := range s.peers {
		group.Go(func() error { return p.reach(s.peers) })
	}
	must(s, group.Wait())
}

// reach is an error unless the peer reaches all others.
func (p peer) reach(all []peer) error {
	words := []string{"traffic", "reach"}
	for _, other := range all {
		if other.ID == p.ID {
			continue
		}
		for _, network := range shared(p.machine.Name, other.machine.Name) {
			if len(other.addresses[network]) != 2 {
				return fmt.Errorf("%s has the addresses %v on %s, want two", other.ID, other.addresses[network], network)
			}
			for _, address := range other.addresses[network] {
				words = append(words, address.String())
			}
		}
	}
	if out, err := p.command(words...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s on %s: %w: %s", p.ID, p.machine.Name, err, out)
	}
	return nil
}
