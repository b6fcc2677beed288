// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestCheckMasters: a master has to be a link of the host, except one in the namespace and
// the default one.
func TestCheckMasters(t *testing.T) {
	broken := errors.New("netlink: interrupted")
	has := func(name string) (bool, error) {
		if name == "broken" {
			return false, broken
		}
		return name == "bond0", nil
	}
	for plugin, missing := range map[string][]string{
		`{"type": "macvlan", "master": "bond0"}`:                         nil,
		`{"type": "macvlan", "master": "eth9"}`:                          {"eth9"},
		`{"type": "vlan", "master": "eth9", "vlanId": 5}`:                {"eth9"},
		`{"type": "ipvlan", "master": "eth8"}, {"type": "tuning"}`:       {"eth8"},
		`{"type": "macvlan", "master": "net1", "linkInContainer": true}`: nil,
		`{"type": "macvlan"}`:                                            nil,
		`{"type": "macvlan", "master": 5}`:                               nil,
		`{"type": "other", "master": "eth9"}`:                            nil,
	} {
		n, err := ParseNetwork("/conf/n.conflist", []byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [`+plugin+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		err = n.CheckMasters(has)
		var found *MissingMasterError
		if errors.As(err, &found) {
			if !slices.Equal(found.Missing, missing) || !strings.Contains(err.Error(), `"master" in /conf/n.conflist`) {
				t.Errorf("%s: %v, want %v", plugin, err, missing)
			}
		} else if err != nil || missing != nil {
			t.Errorf("%s: %v, want %v", plugin, err, missing)
		}
	}
	n, err := ParseNetwork("n", []byte(`{"cniVersion": "1.0.0", "name": "n", "type": "macvlan", "master": "broken"}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.CheckMasters(has); !errors.Is(err, broken) {
		t.Errorf("got %v, want the cause", err)
	}
}
