// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// TestStrictARP: an interface of a network that says so answers for itself alone, and a repair makes that again.
func TestStrictARP(t *testing.T) {
	m := newMemory(t, nil)
	for _, network := range []string{"plain", "strict"} {
		m.network(t, network, "ptp")
	}
	m.edit(t, "strict", `"plugins"`, `"allocnet": {"arp": "strict"}, "plugins"`)
	a, err := m.Setup(t.Context(), Request{ID: "w1", Networks: []selection.Element{{Name: "plain"}, {Name: "strict"}}})
	if err != nil {
		t.Fatal(err)
	}
	ns := m.namespaces.at[a.Netns]
	want := []string{"net/ipv4/conf/net2/arp_ignore=1", "net/ipv4/conf/net2/arp_announce=2"}
	if !slices.Equal(ns.parameters, want) {
		t.Errorf("set %q, want %q", ns.parameters, want)
	}
	ns.parameters = []string{"net/ipv4/conf/net2/arp_ignore=2"} // more than that
	o, err := m.env.Begin(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer o.End()
	lacks, err := o.WorkIn(ns).Lacks(t.Context(), o.Record.Attachments[1])
	if err != nil || len(lacks) != 1 || lacks[0].What != "net2 has to have arp_announce 2" {
		t.Fatalf("lacks %+v, %v", lacks, err)
	}
	if err := lacks[0].Make(); err != nil || !slices.Contains(ns.parameters, want[1]) {
		t.Errorf("%v, and %q is set", err, ns.parameters)
	}
	for value, lacking := range map[string]bool{"0": true, "1": false, "2": false, "3": true, "5": true, "8": false} { // 3 is for the addresses of all interfaces
		ns.parameters = []string{"net/ipv4/conf/net2/arp_ignore=" + value, want[1]}
		if lacks, err := o.WorkIn(ns).Lacks(t.Context(), o.Record.Attachments[1]); err != nil || (len(lacks) > 0) != lacking {
			t.Errorf("arp_ignore %s: lacks %+v, %v", value, lacks, err)
		}
	}
}

// TestStrictARPAndTuning: a plugin that sets the same is refused, before anything is done.
func TestStrictARPAndTuning(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "strict", "ptp", `{"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_ignore": "0"}}`)
	m.edit(t, "strict", `"plugins"`, `"allocnet": {"arp": "strict"}, "plugins"`)
	_, err := m.Setup(t.Context(), Request{ID: "w1", Networks: []selection.Element{{Name: "strict"}}})
	if errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), "arp_ignore") {
		t.Errorf("%v, want it refused", err)
	}
	m.edit(t, "strict", "conf.IFNAME", "conf.all")
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Networks: []selection.Element{{Name: "strict"}}}); err != nil {
		t.Errorf("that of all interfaces: %v", err)
	}
}
