// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipvlan

import (
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// TestMaster: a plugin after another one that has made one interface is on that one, unless a master is named.
func TestMaster(t *testing.T) {
	made := func(names ...string) *current.Result {
		r := &current.Result{}
		for _, name := range names {
			r.Interfaces = append(r.Interfaces, &current.Interface{Name: name})
		}
		return r
	}
	for name, test := range map[string]struct {
		keys     string
		previous *current.Result
		want     string
		refused  bool
	}{
		"named":              {`"master": "eno1"`, nil, "eno1", false},
		"named in a chain":   {`"master": "eno1"`, made("br0"), "eno1", false},
		"of the one before":  {"", made("br0"), "br0", false},
		"two before":         {"", made("br0", "veth0"), "", true},
		"none before":        {"", made(), "", true},
		"one without a name": {"", made(""), "", true},
	} {
		conf, err := parse(&plugin.Call{Config: []byte("{" + test.keys + "}")}, test.previous)
		if (err != nil) != test.refused || err == nil && conf.Link != test.want {
			t.Errorf("%s: %+v, %v, want %q", name, conf, err, test.want)
		}
	}
}

// TestCompare: CHECK tells another kind and another mode from what ADD makes.
func TestCompare(t *testing.T) {
	attrs := netlink.LinkAttrs{Name: "net1"}
	for _, test := range []struct {
		mode string
		link netlink.Link
		want string
	}{
		{"", &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2}, ""},
		{"l2", &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2}, ""},
		{"l3", &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L3}, ""},
		{"l3s", &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L3S}, ""},
		{"l3", &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2}, "ipvlan mode of net1 is l2, was set up as l3"},
		{"x", &netlink.IPVlan{LinkAttrs: attrs}, `unknown ipvlan mode: "x"`},
		{"l2", &netlink.Macvlan{LinkAttrs: attrs}, "net1 is a macvlan"},
	} {
		err := (&config{Mode: test.mode}).compare(test.link)
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("mode %q: %v, want %q", test.mode, err, test.want)
		}
	}
}
