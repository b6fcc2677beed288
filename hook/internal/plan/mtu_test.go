// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/selection"
)

func TestBoundMTU(t *testing.T) {
	for name, test := range map[string]struct {
		plugins string
		mtu     int
		keep    map[string]int
		refused string
	}{
		"none chosen":            {`{"type": "bridge", "mtu": 1500}`, 0, nil, ""},
		"smaller on a bridge":    {`{"type": "bridge", "bridge": "b0", "mtu": 9000}`, 1400, map[string]int{"b0": 9000}, ""},
		"the default bridge":     {`{"type": "bridge", "mtu": 1500}, {"type": "tuning"}`, 1280, map[string]int{"cni0": 1500}, ""},
		"the network's":          {`{"type": "bridge", "mtu": 1500}`, 1500, map[string]int{}, ""},
		"larger":                 {`{"type": "bridge", "mtu": 1500}`, 1501, nil, "1280 to 1500"},
		"larger than the second": {`{"type": "bridge", "mtu": 9000}, {"type": "tuning", "mtu": 4000}`, 4001, nil, "1280 to 4000"},
		"a network below":        {`{"type": "ptp", "mtu": 1000}`, 1280, nil, "none"},
		"not configured":         {`{"type": "bridge", "bridge": "missing0", "mtu": 0}`, 1501, nil, "1280 to 1500"},
		"not made yet":           {`{"type": "bridge", "bridge": "slow0", "mtu": 0}`, 1600, map[string]int{"slow0": 1800}, ""},
		"the master's":           {`{"type": "macvlan", "master": "lo", "mtu": 0}`, 9000, map[string]int{}, ""},
		"a master inside":        {`{"type": "macvlan", "master": "lo", "linkInContainer": true, "mtu": 0}`, 9000, nil, "1280 to 1500"},
		"no plugin with the key": {`{"type": "bridge"}`, 1400, map[string]int{}, ""},
	} {
		list, err := cniconf.ParseList([]byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [` + test.plugins + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		keep, err := boundMTU(selection.Element{Name: "n", MTU: test.mtu}, cniconf.Chain(list), kernel.NewHost(), func(bridge string) int {
			if bridge == "slow0" {
				return 1800
			}
			return 0
		})
		var refused *RequestError
		if errors.As(err, &refused) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: %v, want an error with %q", name, err, test.refused)
		}
		if !maps.Equal(keep, test.keep) {
			t.Errorf("%s: %v, want %v", name, keep, test.keep)
		}
	}
}
