// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"strings"
	"testing"
)

func TestMasters(t *testing.T) {
	networks := load(t, map[string]string{
		"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "macvlan", "master": "bond0"}]}`,
		"b.conflist": `{"cniVersion": "1.0.0", "name": "b", "plugins": [{"type": "macvlan", "master": "eth9"}]}`,
		"c.conflist": `{"cniVersion": "1.0.0", "name": "c", "plugins": [{"type": "vlan", "master": "odd0", "vlanId": 5}]}`,
	})
	r := &Report{}
	masters(r, networks, func(name string) (bool, error) {
		if name == "odd0" {
			return false, errors.New("netlink: interrupted")
		}
		return name == "bond0", nil
	})
	if len(r.Findings) != 2 {
		t.Fatalf("findings: %+v", r.Findings)
	}
	missing, odd := r.Findings[0], r.Findings[1]
	if missing.Severity != Error || missing.Problem != `network "b": the host has no link eth9` || !strings.Contains(missing.Fix, "master") {
		t.Errorf("got %+v", missing)
	}
	if odd.Severity != Warning || !strings.Contains(odd.Problem, "netlink: interrupted") {
		t.Errorf("got %+v", odd)
	}
}
