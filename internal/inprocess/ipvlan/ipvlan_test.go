// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipvlan

import (
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"

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
