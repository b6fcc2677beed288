// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongRenumbered gives a node another address, which Nomad has when it is started again. Packets
// flow soon after that, because the node has claimed its blocks since it was booted.
func TestLongRenumbered(t *testing.T) {
	s := begin(t)
	m := lab.Clients[1]
	address := m.Address.As4()
	address[3] += 10
	worst := s.during("a node is renumbered", func() {
		must(t, m.Renumber(netip.AddrFrom4(address)))
		must(t, m.Signal(cluster.Nomad, unix.SIGTERM))
		must(t, lab.StartNomad(m))
		must(t, cluster.Await("Nomad has the address", func() error { return lab.RequireAddress(m) }))
		known := time.Now()
		s.counted() // packets of the last second count as flowing
		s.flowing()
		took := time.Since(known)
		t.Logf("packets flow %s after Nomad has the address: %s", took.Round(time.Millisecond), judge(took))
	})
	if worst.Lost == 0 {
		t.Error("no packet was lost: the address is not used")
	}
}
