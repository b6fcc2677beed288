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
	"github.com/allocnet/allocnet/internal/sandbox/stream"
)

// crowd is how many allocations are repaired together.
var crowd = int(sandbox.Number("ALLOCNET_REPAIR_ALLOCATIONS", 20))

// TestLongCrowd repairs many allocations with one listing of rules and one transaction. The agent does so too.
func TestLongCrowd(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	ids, ports := make([]string, crowd), make([]int, crowd)
	for i := range ids {
		ids[i], ports[i] = fmt.Sprintf("crowd-%d", i), 9000+i
		stream.Listen(t, h.attach(ids[i], ports[i]).Netns, ":80")
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

// testCrowdAgent has the agent repair them, while connections to every tenth published port are made.
func (h *host) testCrowdAgent(t *testing.T, ports []int) {
	var streams []*stream.Stream
	for i := 0; i < len(ports); i += 10 {
		w := stream.Way{Name: fmt.Sprint("to port ", ports[i]), From: outside, To: fmt.Sprintf("%s:%d", hostAddress, ports[i])}
		streams = append(streams, stream.Start(t, w, 2*stream.Step))
	}
	for _, command := range []string{"nft flush ruleset", "ip link del web0"} {
		t.Run(command, func(t *testing.T) {
			h := &host{TB: t, engine: h.engine, dir: h.dir}
			socket := h.startAgent("crowd-0") // another one would rest after the rounds before
			stream.AwaitFlow(t, streams)
			began := time.Now()
			shell(t, command)
			stream.AwaitFlow(t, streams)
			t.Logf("of %d allocations, new connections after %s", len(ports), stream.LongestGap(streams, began).Round(time.Millisecond))
			h.requireTold(socket)
		})
	}
}
