// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"testing"

	"github.com/vishvananda/netlink"
)

// TestRenamedEnd: an operator's name for the host's end of a pair is as good as that of the plugin. What leads to another
// namespace, to another interface, or is the end of another attachment is not taken for it.
func TestRenamedEnd(t *testing.T) {
	link := func(name string, number, peer int) netlink.Link {
		return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, NetNsID: number, ParentIndex: peer}}
	}
	for name, test := range map[string]struct {
		link netlink.Link
		want bool
	}{
		"renamed":                   {link("tap-c1", 3, 2), true},
		"another namespace":         {link("tap-c1", 4, 2), false},
		"another interface":         {link("tap-c1", 3, 5), false},
		"another attachment":        {link("veth0bd7c1a9", 3, 2), false},
		"no pair":                   {&netlink.IPVlan{LinkAttrs: netlink.LinkAttrs{Name: "ipvl0", NetNsID: 3, ParentIndex: 2}}, false},
		"both ends are of the host": {link("tap-c1", -1, 2), false},
	} {
		t.Run(name, func(t *testing.T) {
			found := endOf([]netlink.Link{link("other0", 9, 9), test.link}, 3, 2)
			if test.want != (found == test.link) || !test.want && found != nil {
				t.Errorf("found %v", found)
			}
		})
	}
}
