// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// settle is how long a host that has written to the store who it is, once after its boot, waits for
// another one to say that it is a copy.
const settle = 40 * time.Second

// TestRenumbered gives a node another address, which Nomad has when it is started again. Packets
// flow soon after that.
func TestRenumbered(t *testing.T) {
	s := begin(t)
	m := lab.Clients[1]
	wrote, err := os.Stat(m.Path("var/lib/allocnet/ipam/node.json"))
	must(t, err)
	time.Sleep(time.Until(wrote.ModTime().Add(settle)))
	worst := s.during("a node is renumbered", func() {
		must(t, m.Renumber(netip.MustParseAddr("172.31.0.22")))
		must(t, m.Signal(cluster.Nomad, unix.SIGTERM))
		must(t, lab.StartNomad(m))
		must(t, cluster.Await("Nomad has the address", func() error { return lab.RequireAddress(m) }))
		known := time.Now()
		time.Sleep(time.Second) // packets of the last second count as flowing
		s.flowing()
		took := time.Since(known)
		t.Logf("packets flow %s after Nomad has the address", took.Round(time.Millisecond))
		if took > longest {
			t.Errorf("packets flow %s after Nomad has the address, want at most %s", took, longest)
		}
	})
	if worst.Lost == 0 {
		t.Error("no packet was lost: the address is not used")
	}
}
