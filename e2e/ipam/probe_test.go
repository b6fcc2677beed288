// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestProbe: an address that another host on the link has, by whatever means, is not given out.
func TestProbe(t *testing.T) {
	namespace(t, "neighbour")
	for _, args := range [][]string{
		{"link", "add", "probe0", "type", "veth", "peer", "name", "probe1", "netns", "neighbour"}, {"link", "set", "probe0", "up"},
		{"-n", "neighbour", "link", "set", "probe1", "up"},
		{"-n", "neighbour", "addr", "add", "10.60.0.2/29", "dev", "probe1"}, {"-n", "neighbour", "addr", "add", "fd60::2/125", "dev", "probe1", "nodad"},
	} {
		sandbox.Run(t, append([]string{"ip"}, args...)...)
	}
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "delete", "probe0") })
	p := newPool(t, map[string]any{"probe": "probe0", "ranges": []any{map[string]any{"subnet": "10.60.0.0/29"}, map[string]any{"subnet": "fd60::/125"}}})
	got := p.mustAdd(call{id: "c1"})
	if len(got) != 2 || got[0] != "10.60.0.3/29" || got[1] != "fd60::3/125" {
		t.Errorf("got %v, want the first addresses that the neighbour does not have", got)
	}
	p.mustRun(call{verb: "DEL", id: "c1"})
}
