// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"slices"
	"testing"
)

func TestDevices(t *testing.T) {
	for plugins, want := range map[string][]Device{
		`{"type": "bridge"}`: {{"bridge", "cni0", true}},
		`{"type": "bridge", "bridge": "web0"}, {"type": "tuning"}`:                {{"bridge", "web0", true}},
		`{"type": "macvlan", "master": "bond0"}`:                                  {{"macvlan", "bond0", false}},
		`{"type": "ipvlan"}`:                                                      {{"ipvlan", "", false}},
		`{"type": "vlan", "master": "bond0", "linkInContainer": true}`:            nil,
		`{"type": "ptp"}`:                                                         nil,
		`{"type": "bridge", "bridge": 5}`:                                         nil,
		`{"type": "bridge", "mtu": "high", "device": 5, "snat": 1}`:               {{"bridge", "cni0", true}},
		`{"type": "other", "master": "b0"}`:                                       nil,
		`{"type": "bridge", "bridge": "a0"}, {"type": "macvlan", "master": "b0"}`: {{"bridge", "a0", true}, {"macvlan", "b0", false}},
	} {
		n, err := ParseNetwork("n", []byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [`+plugins+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Devices(); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", plugins, got, want)
		}
	}
}
