// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"strings"
	"testing"
)

func TestSharedRanges(t *testing.T) {
	for name, test := range map[string]struct {
		plugin, ipam, options string
		warned                bool
	}{
		"macvlan":            {"macvlan", "host-local", "", true},
		"ipvlan":             {"ipvlan", "host-local", "", true},
		"vlan":               {"vlan", "host-local", `, "allocnet": {"hostRange": false}`, true},
		"host-device":        {"host-device", "host-local", `, "allocnet": {"namespaces": ["prod"]}`, true},
		"marked":             {"macvlan", "host-local", `, "allocnet": {"hostRange": true}`, false},
		"DHCP":               {"macvlan", "dhcp", "", false},
		"a bridge":           {"bridge", "host-local", "", false},
		"a mistake in it":    {"macvlan", "host-local", `, "allocnet": {"hostrang": true}`, true},
		"a mistake, no mark": {"macvlan", "static", `, "allocnet": {"x": 1}`, false},
	} {
		r := &Report{}
		sharedRanges(r, load(t, map[string]string{"a.conflist": fmt.Sprintf(
			`{"cniVersion": "1.0.0", "name": "a"%s, "plugins": [{"type": %q, "master": "eth0", "ipam": {"type": %q, "subnet": "10.0.0.0/24"}}]}`, test.options, test.plugin, test.ipam)}))
		if warned := len(r.Findings) == 1 && r.Findings[0].Severity == Warning && strings.Contains(r.Findings[0].Fix, "hostRange"); warned != test.warned || len(r.Findings) > 1 {
			t.Errorf("%s: %+v, warning: want %t", name, r.Findings, test.warned)
		}
	}
}
