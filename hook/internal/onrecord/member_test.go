// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"fmt"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestMember: an attachment is known by the interface of the host that routes its packets, and by its own addresses.
func TestMember(t *testing.T) {
	const result = `{"cniVersion": "1.0.0", "interfaces": [{"name": "br0", "mac": "02:00:00:00:00:03"}, {"name": "veth1", "mac": "02:00:00:00:00:01"}, {"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/x"}],
		"ips": [{"address": "10.0.0.5/24", "interface": 2}, {"address": "fd00::5/64", "interface": 2}, {"address": "10.0.0.1/24", "interface": 0}]}`
	identity := state.Allocation{ID: "a", Identity: state.Identity{Namespace: "prod", Job: "web", Group: "g"}}
	for _, test := range []struct {
		plugins string
		change  func(*state.Attachment)
		want    string
	}{
		{`{"type": "bridge", "bridge": "br0"}`, nil, "br0 [10.0.0.5 fd00::5]"},
		{`{"type": "bridge"}`, nil, "cni0 [10.0.0.5 fd00::5]"},
		{`{"type": "bridge", "bridge": "br0", "vlan": 7}`, nil, "br0.7 [10.0.0.5 fd00::5]"},
		{`{"type": "ptp"}, {"type": "portmap"}`, nil, "veth1 [10.0.0.5 fd00::5]"},
		{`{"type": "macvlan", "master": "eth1"}`, nil, " [10.0.0.5 fd00::5]"},
		{`{"type": "ptp"}`, func(a *state.Attachment) { a.Phase = state.Deleting }, " []"},
		{`{"type": "ptp"}`, func(a *state.Attachment) { a.Result = nil }, " []"},
	} {
		a := state.Attachment{
			Network: "n", Interface: "eth0", ContainerID: "a", Phase: state.Attached, Result: []byte(result),
			ConfList: fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [%s]}`, test.plugins),
		}
		if test.change != nil {
			test.change(&a)
		}
		m, err := Member(identity, a)
		if got := fmt.Sprintf("%s %v", m.Link, m.Addresses); err != nil || got != test.want || m.ID != "a" || m.Network != "n" || m.Namespace != "prod" || m.Job != "web" || m.Group != "g" {
			t.Errorf("%s: %+v, %v, want %s", test.plugins, m, err, test.want)
		}
	}
	if _, err := Member(identity, state.Attachment{Phase: state.Attached, Result: []byte("{")}); err == nil {
		t.Error("a result that cannot be read is no error")
	}
}
