// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestDenied: what a level denies is counted for both ends, and the agent tells which flow it was, by the names of its ends.
func TestDenied(t *testing.T) {
	h := newHost(t)
	socket := h.startAgent()
	one, two := h.serve(h.attach("one", "strict")), h.serve(h.attach("two", "strict"))
	for _, address := range two.addresses {
		want := allocation.DeniedFlow{
			From: allocation.FlowEnd{Allocation: "one", Interface: "eth0", Network: "strict", Link: "strict0"}, Protocol: "tcp", Port: 80, Reason: "strict",
			To: allocation.FlowEnd{Address: netip.MustParseAddr(address), Allocation: "two", Interface: "eth0", Network: "strict", Link: "strict0"},
		}
		out := ""
		sandbox.Eventually(t, "the agent tells of the flow", func() bool {
			if err := reaches(one.netns, net.JoinHostPort(address, "80"), denied); err == nil {
				t.Fatal("a strict network lets its allocations reach each other")
			}
			out = h.must("events", "--denied", "--allocation", "one", "--socket", socket, "--json")
			for line := range strings.Lines(out) {
				var f allocation.DeniedFlow
				if err := json.Unmarshal([]byte(line), &f); err != nil {
					t.Fatal(err)
				}
				isNamed := f.From.Address.Is4() == f.To.Address.Is4() && f.Count > 0
				f.First, f.Last, f.Count, f.From.Address = want.First, want.Last, 0, want.From.Address
				if isNamed && f == want {
					return true
				}
			}
			return false
		}, func() string { return out })
	}
	for _, id := range []string{"one", "two"} {
		var a hook.Allocation
		if err := json.Unmarshal([]byte(h.must("status", id, "--json")), &a); err != nil {
			t.Fatal(err)
		}
		if d := a.Attachments[0].Denied; d == nil || d.Packets == 0 || d.Bytes == 0 || d.Forged > 0 {
			t.Errorf("of %s %+v were dropped", id, d)
		}
	}
	if drawn := h.must("map", "--denied", "--socket", socket, "--format", "dot"); !strings.Contains(drawn, `80/tcp, `) {
		t.Errorf("the map has no denied flow:\n%s", drawn)
	}
	if others := h.must("events", "--denied", "--network", "open", "--socket", socket, "--json"); others != "" {
		t.Errorf("of another network: %s", others)
	}
}
