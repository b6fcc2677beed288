// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongGuardKept: doctor says of which pools nothing drops forged packets while no agent runs, and the agent makes what does so
// again.
func TestLongGuardKept(t *testing.T) {
	s := take(t)
	m, pools := lab.Clients[0], []string{"auto-ptp", "auto-bridge", "vxlan-ptp", "vxlan-bridge"}
	unguarded := func(want bool) error {
		out, _ := m.Run("allocnet", "doctor") // it may have errors
		for _, pool := range pools {
			const port = "what allocations of this host send to UDP port 4789 of other hosts: they can send packets with any address into pool "
			if says := strings.Contains(out, "nothing drops "+port+pool); says != want || strings.Contains(out, "not known") {
				return fmt.Errorf("of pool %s doctor says %t, want %t:\n%s", pool, says, want, out)
			}
		}
		return nil
	}
	must(t, cluster.Await("all pools are guarded", func() error { return unguarded(false) }))
	must(t, m.Signal(cluster.Agent, unix.SIGSTOP))
	s.run(m, "nft list tables | grep allocnet-vx- | while read table; do nft delete $table; done")
	must(t, unguarded(true))
	must(t, m.Signal(cluster.Agent, unix.SIGCONT))
	must(t, cluster.Await("all pools are guarded again", func() error { return unguarded(false) }))
}
