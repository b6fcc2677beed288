// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"fmt"
	"strings"
	"testing"
)

// TestEachTuningKeepsWhatItHasFound: of a device of the host. One of a plugin that makes an interface has nothing to give back.
func TestEachTuningKeepsWhatItHasFound(t *testing.T) {
	for plugins, want := range map[string]string{
		`{"type": "host-device"}, {"type": "tuning"}, {"type": "tuning", "mtu": 1400}, {"type": "tuning"}`:                                   `{"type":"host-device"},{"type":"tuning"},{"dataDir":"/run/cni/tuning-2","mtu":1400,"type":"tuning"},{"dataDir":"/run/cni/tuning-3","type":"tuning"}`,
		`{"type": "sriov"}, {"type": "tuning", "dataDir": "/a"}, {"type": "tuning", "datadir": "/a"}, {"type": "tuning", "dataDir": "/a-2"}`: `{"type":"sriov"},{"dataDir":"/a","type":"tuning"},{"dataDir":"/a-2","type":"tuning"},{"dataDir":"/a-2-2","type":"tuning"}`,
		`{"type": "sriov"}, {"type": "tuning"}, {"type": "tuning", "dataDir": "/run//cni/tuning/"}`:                                          `{"type":"sriov"},{"type":"tuning"},{"dataDir":"/run/cni/tuning-2","type":"tuning"}`,
		`{"type": "bridge"}, {"type": "tuning"}, {"type": "tuning"}`:                                                                         `{"type":"bridge"},{"type":"tuning"},{"type":"tuning"}`,
	} {
		n, err := ParseNetwork("n", fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [%s]}`, plugins))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := n.Render(Edit{}); err != nil || !strings.Contains(string(got), `"plugins":[`+want+`]`) {
			t.Errorf("%s: %s, %v, want %s", plugins, got, err, want)
		}
	}
}
