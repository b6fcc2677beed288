// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/state"
)

// TestVerifyOldPortmap: a runtime keeps an allocation whose ports an old portmap did not
// find in the tables of IPv6.
func TestVerifyOldPortmap(t *testing.T) {
	e := fakeEngine(t, func(c *Config) { fakecni.InstallAs(t, c.PluginDirs[0], "portmap") })
	check := fakecni.Behaviour{Code: 999, Msg: "could not check ipv6 dnat: chain CNI-DN-0123 not found in iptables table nat"}
	setUp(t, e, check, func(_ *state.Allocation, all []state.Attachment) {
		all[0].ConfList = bytes.ReplaceAll(all[0].ConfList, []byte(`"fakecni"`), []byte(`"portmap"`))
		all[0].Result = json.RawMessage(`{"cniVersion": "1.1.0", "ips": [{"address": "10.88.0.2/16"}]}`)
	})
	if err := e.Verify(t.Context(), Verification{ID: "a1", Owner: "cni/multi/lo", Netns: ownNetns, Interface: "lo"}); err != nil {
		t.Error(err)
	}
}

// TestVerifyOldPortmapOfOneInterface: portmap has no rules of addresses that the result has for
// another interface of the namespace, so it has no chain of IPv6.
func TestVerifyOldPortmapOfOneInterface(t *testing.T) {
	e := fakeEngine(t, func(c *Config) { fakecni.InstallAs(t, c.PluginDirs[0], "portmap") })
	check := fakecni.Behaviour{Code: 999, Msg: "could not check ipv6 dnat: chain CNI-DN-0123 not found in iptables table nat"}
	setUp(t, e, check, func(_ *state.Allocation, all []state.Attachment) {
		all[0].ConfList = bytes.ReplaceAll(all[0].ConfList, []byte(`"fakecni"`), []byte(`"portmap"`))
		all[0].Result = json.RawMessage(`{"cniVersion": "1.1.0", "interfaces": [{"name": "lo", "sandbox": "/n"}, {"name": "lo.6", "sandbox": "/n"}],
			"ips": [{"address": "10.88.0.2/16", "interface": 0}, {"address": "fd00:88::2/64", "interface": 1}]}`)
	})
	if err := e.Verify(t.Context(), Verification{ID: "a1", Owner: "cni/multi/lo", Netns: ownNetns, Interface: "lo"}); err != nil {
		t.Error(err)
	}
}
