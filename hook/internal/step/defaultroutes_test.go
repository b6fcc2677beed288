// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// TestPreviousRoutes: an attachment that has the default route knows those of the
// others, of one family, each once, and does not share the list with another.
func TestPreviousRoutes(t *testing.T) {
	route := func(iface, gateway string) netns.Route {
		return netns.Route{Interface: iface, Gateway: netip.MustParseAddr(gateway)}
	}
	before, own, sibling, v6 := route("eth0", "10.0.0.1"), route("net1", "10.1.0.1"), route("net2", "10.2.0.1"), route("net2", "fd00::1")
	shared := append(make([]netns.Route, 0, 4), before)
	w := &Work{Record: &state.Record{Attachments: []state.Attachment{
		{Interface: "net1", PreviousRoutes: shared}, {Interface: "net2", PreviousRoutes: shared},
	}}}
	for range 2 {
		recordPreviousRoutes(w, own, []netns.Route{before, own, sibling, v6})
	}
	recordPreviousRoutes(w, v6, nil)
	recordPreviousRoutes(w, before, []netns.Route{sibling})
	if got := w.Record.Attachments[0].PreviousRoutes; !slices.Equal(got, []netns.Route{before, sibling}) {
		t.Errorf("net1 replaces %v", got)
	}
	if got := w.Record.Attachments[1].PreviousRoutes; !slices.Equal(got, []netns.Route{before}) || shared[:2][1] != (netns.Route{}) {
		t.Errorf("net2 replaces %v, shared %v", got, shared[:2])
	}
}
