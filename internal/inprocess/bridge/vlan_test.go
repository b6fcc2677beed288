// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestVLANIDs: a trunk has ranges and single VLANs, each once and in order. What is incomplete or no VLAN is refused.
func TestVLANIDs(t *testing.T) {
	for text, want := range map[string]struct {
		ids     []uint16
		refused string
	}{
		`[]`: {}, `[{}]`: {},
		`[{"id": 7}, {"minID": 6, "maxID": 8}, {"id": 4094}]`: {ids: []uint16{6, 7, 8, 4094}},
		`[{"minID": 5, "maxID": 5}]`:                          {ids: []uint16{5}},
		`[{"maxID": 5}]`:                                      {refused: "minID and maxID should be configured simultaneously, minID is missing"},
		`[{"minID": 5}]`:                                      {refused: "minID and maxID should be configured simultaneously, maxID is missing"},
		`[{"minID": 0, "maxID": 5}]`:                          {refused: "incorrect trunk minID parameter"},
		`[{"minID": 5, "maxID": 4095}]`:                       {refused: "incorrect trunk maxID parameter"},
		`[{"minID": 5, "maxID": 4}]`:                          {refused: "minID is greater than maxID in trunk parameter"},
		`[{"id": 3}, {"id": 0}]`:                              {refused: "incorrect trunk id parameter"},
		`[{"id": 4095}]`:                                      {refused: "incorrect trunk id parameter"},
	} {
		var trunk []vlanRange
		if err := json.Unmarshal([]byte(text), &trunk); err != nil {
			t.Fatal(err)
		}
		ids, err := vlanIDs(trunk)
		if !slices.Equal(ids, want.ids) || (err != nil) != (want.refused != "") || err != nil && err.Error() != want.refused {
			t.Errorf("%s: %v, %v", text, ids, err)
		}
	}
}

// TestPortOfAnotherBridge: an operator's other bridge keeps the port, also where the attachment's is gone.
func TestPortOfAnotherBridge(t *testing.T) {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Index: 7}}
	for master, refused := range map[int][2]bool{0: {false, false}, 7: {false, true}, 8: {true, true}} {
		port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "port", MasterIndex: master}}
		for i, of := range []*netlink.Bridge{bridge, nil} {
			if err := refuseOtherMaster(of, port); (err != nil) != refused[i] {
				t.Errorf("master %d, bridge %v: %v", master, of, err)
			}
		}
	}
}
