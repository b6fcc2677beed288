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
