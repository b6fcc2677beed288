// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"bytes"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestListToRun: the conflist on record is decoded once for all attempts, and stays as it is.
func TestListToRun(t *testing.T) {
	a := state.Attachment{
		Phase: state.Attached, FormerResult: []byte(`{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.1/24"}]}`),
		ConfList: []byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge", "forceAddress": true, "ipam": {"type": "host-local"}}]}`),
	}
	recorded, err := List(a)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		list, err := ListToRun(recorded, a)
		if err != nil {
			t.Fatal(err)
		}
		if config := list.Plugins[0].Bytes; len(Forced(list.Plugins[0])) > 0 || !bytes.Contains(config, []byte(`"ips":["10.0.0.1"]`)) {
			t.Errorf("to run: %s", config)
		}
	}
	if len(Forced(recorded.Plugins[0])) == 0 {
		t.Errorf("recorded: %s", recorded.Plugins[0].Bytes)
	}
}

// TestListToRunPublished: only a repair has DEL keep what is published, also where the network's own addresses are of another plugin.
func TestListToRunPublished(t *testing.T) {
	a := state.Attachment{
		Phase: state.Attached, FormerResult: []byte(`{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.1/24"}]}`),
		ConfList: []byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "portmap", "publishAddress": {}}, {"type": "tuning"}]}`),
	}
	recorded, err := List(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range []bool{true, false} {
		list, err := ListToRun(recorded, a)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range list.Plugins {
			if keeps := bytes.Contains(p.Bytes, []byte(`"args":{"allocnet":{"keepAddresses":true}}`)); keeps != (is && i == 1) {
				t.Errorf("of a repair (%v): %s", is, p.Bytes)
			}
		}
		a.Phase = state.Deleting
	}
}
