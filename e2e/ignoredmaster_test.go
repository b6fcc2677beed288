// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestIgnoredInnerMaster: bridge has no linkInContainer in any version, and ignores the key.
// Its interface is on the host, as it has to be.
func TestIgnoredInnerMaster(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/60-ignored.conflist", `{"cniVersion": "1.0.0", "name": "ignored", "plugins": [
		{"type": "bridge", "bridge": "storage0", "mtu": 1500, "linkInContainer": true}]}`)
	h.attach("m1", "--primary", "ignored")
	h.must("detach", "m1")
}
