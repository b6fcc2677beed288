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
		"d.conflist": `{"cniVersion": "1.0.0", "name": "d", "plugins": [{"type": "macvlan", "master": "lan0"}]}`,
		"e.conflist": `{"cniVersion": "1.0.0", "name": "e", "plugins": [{"type": "bridge", "bridge": "lan0"}]}`,
	})
	r := &Report{}
	masters(r, networks, func(name string) (bool, error) {
		if name == "odd0" {
			return false, errors.New("netlink: interrupted")
		}
		return name == "bond0", nil
	})
	if len(r.Findings) != 3 {
		t.Fatalf("findings: %+v", r.Findings)
	}
	missing, odd, created := r.Findings[0], r.Findings[1], r.Findings[2]
	if missing.Severity != Error || missing.Problem != `network "b": the host has no link eth9` || !strings.Contains(missing.Fix, "master") {
		t.Errorf("got %+v", missing)
	}
	if odd.Severity != Warning || !strings.Contains(odd.Problem, "netlink: interrupted") {
		t.Errorf("got %+v", odd)
	}
	if created.Severity != Warning || created.Problem != `network "d": the host has no link lan0 yet` || !strings.Contains(created.Fix, `select e, which creates it, before network "d"`) {
		t.Errorf("got %+v", created)
	}
}
