// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// crowd is how many allocations are repaired together.
var crowd = int(sandbox.Number("ALLOCNET_REPAIR_ALLOCATIONS", 20))

// TestCrowd repairs many allocations with one listing of rules and one transaction.
func TestCrowd(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	ids := make([]string, crowd)
	for i := range ids {
		ids[i] = fmt.Sprintf("crowd-%d", i)
		h.attach(ids[i], 9000+i)
	}
	t.Cleanup(func() {
		var group errgroup.Group
		for _, id := range ids {
			group.Go(func() error { h.detach(id); return nil })
		}
		_ = group.Wait()
	})
	before := h.picture(ids[0])
	for _, command := range []string{"true", "nft flush ruleset", "ip link del web0", "nft flush ruleset; ip link del web0; sysctl -qw net.ipv4.ip_forward=0"} {
		shell(t, command)
		began := time.Now()
		drifts := h.repair(hook.RepairRules)
		t.Logf("%s: %d attachments of %d allocations repaired in %s", command, len(drifts), crowd, time.Since(began).Round(time.Millisecond))
		for _, d := range drifts {
			if !d.Repaired {
				t.Errorf("not repaired: %+v", d)
			}
		}
		h.requireSame(before, ids[0])
	}
}
