// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// TestMACOfTheMaster: an interface that has the MAC of its master may have another one by now; what is no such interface, or not of the
// plugin, may not.
func TestMACOfTheMaster(t *testing.T) {
	for _, test := range []struct {
		plugin, kind string
		damaged      bool
	}{{"vlan", "vlan", false}, {"ipvlan", "ipvlan", false}, {"macvlan", "macvlan", true}, {"bridge", "vlan", true}, {"vlan", "ipvlan", true}} {
		a := state.Attachment{
			Interface: "net1", Phase: state.Attached, ConfList: fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": %q}]}`, test.plugin),
			Result: json.RawMessage(`{"cniVersion": "1.0.0", "interfaces": [{"name": "net1", "sandbox": "/n"}]}`), Status: json.RawMessage(`{"mac": "02:00:00:00:00:01", "mtu": 1500}`),
		}
		err := Inside(a, []netns.Interface{{Name: "net1", Kind: test.kind, MAC: "02:00:00:00:00:02", Up: true}})
		if (err != nil) != test.damaged {
			t.Errorf("%s of the plugin %s: %v", test.kind, test.plugin, err)
		}
	}
}
