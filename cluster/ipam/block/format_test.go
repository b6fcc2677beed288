// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"fmt"
	"os"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// TestFormats: what is on disk has the version of its format, and a file of each version is read.
func TestFormats(t *testing.T) {
	storetest.Golden(t, fmt.Sprintf("testdata/node-%d.json", nodeVersion), &node{})
	storetest.Golden(t, fmt.Sprintf("testdata/blocks-%d.json", recordsVersion), &records{})
	storetest.Golden(t, fmt.Sprintf("testdata/endpoint-%d.json", endpointVersion), &endpoint{})
	w := newWorld(1)
	h := w.hosts[0]
	for version := range nodeVersion + 1 {
		golden, err := os.ReadFile(fmt.Sprintf("testdata/node-%d.json", version))
		if err != nil {
			t.Fatal(err)
		}
		h.files[nodeFile] = golden
		n, err := h.agent.readNode("00000000000000000000000000000001")
		if err != nil || n.last() != "nonce1" || !n.Contested || n.Index != 7 {
			t.Errorf("version %d: %+v, %v", version, n, err)
		}
	}
}
