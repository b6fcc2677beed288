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

// TestCrowd repairs many allocations with one listing of rules and one transaction. The agent does so too.
func TestCrowd(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	ids, ports := make([]string, crowd), make([]int, crowd)
	for i := range ids {
		ids[i], ports[i] = fmt.Sprintf("crowd-%d", i), 9000+i
		h.listen(h.attach(ids[i], ports[i]).Netns, ":80")
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
	h.testCrowdAgent(t, ports)
}

// crowdStep is longer than step: there are many streams.
const crowdStep = 250 * time.Millisecond

// testCrowdAgent has the agent repair them, while connections to each published port are made.
func (h *host) testCrowdAgent(t *testing.T, ports []int) {
	socket := h.startAgent("crowd-0")
	streams := make([]*stream, len(ports))
	for i, port := range ports {
		streams[i] = h.stream(way{name: fmt.Sprint("to port ", port), from: outside, to: fmt.Sprintf("%s:%d", hostAddress, port)}, crowdStep)
	}
	h.awaitFlow(streams)
	for _, command := range []string{"nft flush ruleset", "ip link del web0"} {
		began := time.Now()
		shell(t, command)
		h.awaitFlow(streams)
		t.Logf("%s: new connections to each of %d allocations after %s", command, len(ports), longestGap(streams, began).Round(time.Millisecond))
	}
	h.requireTold(socket)
}
