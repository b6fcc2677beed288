// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
)

// TestDenied: flows with an end in the map are drawn in each form, from one allocation to another, or to an address.
func TestDenied(t *testing.T) {
	end := func(id, address string) hook.FlowEnd {
		e := hook.FlowEnd{Address: netip.MustParseAddr(address), Allocation: id}
		if id != "" {
			e.Interface = "eth0"
		}
		return e
	}
	flows := []hook.DeniedFlow{
		{Count: 7, From: end("a", "10.0.0.5"), To: end("b", "10.0.0.6"), Protocol: "tcp", Port: 80, Reason: "strict"},
		{Count: 1, From: end("", "192.0.2.7"), To: end("b", "10.0.0.6"), Protocol: "icmp", Reason: "strict"},
		{Count: 1, From: end("c", "10.0.0.7"), To: end("", "192.0.2.7"), Protocol: "tcp", Port: 443, Reason: "egress"},
		{Count: 2, From: hook.FlowEnd{Allocation: "a", Interface: "eth0"}, Reason: "forged"},
	}
	of := func(id string) *hook.Allocation {
		return &hook.Allocation{ID: id, Attachments: []hook.Attachment{{Network: "web", Interface: "eth0"}}}
	}
	m := build(facts{Host: "h", Allocations: []*hook.Allocation{of("a"), of("b")}, Denied: flows})
	if len(m.Denied) != 3 {
		t.Errorf("the map has %+v", m.Denied)
	}
	const first = "denied: a@eth0 (10.0.0.5) to b@eth0 (10.0.0.6), 80/tcp, 7 packets (strict)"
	for form, want := range map[string][]string{
		Text(m, TextOptions{}): {"\n! " + first + "\n", "! denied: 192.0.2.7 to b@eth0 (10.0.0.6), icmp, 1 packet (strict)\n", "! denied: a@eth0 (a frame) to -, 2 packets (forged)\n"},
		SVG(m):                 {first},
		DOT(m): {
			`allocation0 -- allocation1 [label="denied\n80/tcp, 7 packets (strict)", dir=forward, style=dashed, color=red]`,
			`other0 [label="192.0.2.7", style=dashed]`, `other0 -- allocation1 [`, `allocation0 -- other1 [label="denied\n2 packets (forged)"`,
		},
	} {
		for _, part := range want {
			if !strings.Contains(form, part) {
				t.Errorf("%s is missing in\n%s", part, form)
			}
		}
	}
	if m = build(facts{Host: "h", Allocations: []*hook.Allocation{of("a")}}); strings.Contains(Text(m, TextOptions{})+SVG(m)+DOT(m), "denied") {
		t.Error("without flows something is denied")
	}
}

// TestDeniedUnknown: an agent that does not answer is a problem of the map, and no error.
func TestDeniedUnknown(t *testing.T) {
	h := Host{Name: "h", Engine: &fakeEngine{}, Catalog: func() (*cniconf.Catalog, error) { return &cniconf.Catalog{}, nil }}
	h.Denied = func(context.Context) ([]hook.DeniedFlow, error) { return nil, errors.New("no agent answers") }
	m, err := Read(t.Context(), h)
	if err != nil || !strings.Contains(strings.Join(m.Problems, ""), "the denied flows are not known: no agent answers") {
		t.Errorf("%q, %v", m.Problems, err)
	}
}
