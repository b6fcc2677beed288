// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/state"
)

// TestMember: an attachment is known by its own addresses, and by the interface of the host that routes its packets. Its level is that of its network
// now, and without its file the one that it was attached with.
func TestMember(t *testing.T) {
	const result = `{"cniVersion": "1.0.0", "interfaces": [{"name": "br0", "mac": "02:00:00:00:00:03"}, {"name": "veth1", "mac": "02:00:00:00:00:01"}, {"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/x"}],
		"ips": [{"address": "10.0.0.5/24", "interface": 2}, {"address": "fd00::5/64", "interface": 2}, {"address": "10.0.0.1/24", "interface": 0}]}`
	strict := networkLevels{"n": {isolation.Strict, true, false, false}}
	apart := networkLevels{"n": {isolation.Strict, true, false, true}}
	recorded := &state.Isolation{Level: "network", Antispoof: true, End: "veth9", Bridge: "br9", MAC: "02:00:00:00:00:09", Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.5")}}
	of := state.Allocation{ID: "a", Identity: state.Identity{Namespace: "prod", Job: "web", Group: "g"}}
	for _, test := range []struct {
		plugins  string
		levels   networkLevels
		recorded *state.Isolation
		want     string // empty: it is not known to the host
	}{
		{`{"type": "bridge", "bridge": "br0"}`, strict, nil, "br0 [10.0.0.5 fd00::5] strict true veth1@br0 02:00:00:00:00:02"},
		{`{"type": "bridge"}, {"type": "portmap"}`, nil, nil, "cni0 [10.0.0.5 fd00::5] none false veth1@cni0 02:00:00:00:00:02"},
		{`{"type": "ptp"}`, strict, nil, "veth1 [10.0.0.5 fd00::5] strict true veth1@ 02:00:00:00:00:02"},
		{`{"type": "bridge", "bridge": "br0", "vlan": 7}`, strict, nil, ""},
		{`{"type": "macvlan", "master": "eth1"}`, strict, nil, ""},
		{`{"type": "bridge"}`, strict, recorded, "br9 [10.9.0.5] strict true veth9@br9 02:00:00:00:00:09"},
		{`{"type": "bridge"}`, nil, recorded, "br9 [10.9.0.5] network true veth9@br9 02:00:00:00:00:09"},
		{`{"type": "bridge"}`, strict, &state.Isolation{Level: "strict"}, ""}, // before ADD
		{`{"type": "bridge"}`, strict, &state.Isolation{Level: "strict", End: "veth9"}, "veth9 [] strict true veth9@ "},
		{`{"type": "macvlan", "master": "eth1"}`, apart, nil, " [10.0.0.5 fd00::5] strict true eth0@ 02:00:00:00:00:02"},
		{`{"type": "macvlan", "master": "eth1"}`, apart, &state.Isolation{Level: "strict", Inside: true}, " [] strict true eth0@ "}, // before the end of ADD
		{`{"type": "macvlan", "master": "eth1"}`, apart, &state.Isolation{Level: "strict", Inside: true, MAC: "02:00:00:00:00:09"}, " [10.0.0.5 fd00::5] strict true eth0@ 02:00:00:00:00:02"},
		{`{"type": "bridge", "bridge": "br0"}`, apart, nil, "br0 [10.0.0.5 fd00::5] strict true veth1@br0 02:00:00:00:00:02"}, // of a network that was another one
		{`{"type": "macvlan", "master": "eth1"}`, strict, &state.Isolation{Level: "strict", Inside: true, MAC: "02:00:00:00:00:09"}, ""},
	} {
		a := state.Attachment{
			Network: "n", Interface: "eth0", ContainerID: "a", Phase: state.Attached, Result: []byte(result), Isolation: test.recorded,
			ConfList: fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [%s]}`, test.plugins),
		}
		m, ok := member(of, a, test.levels)
		got := ""
		if ok {
			got = fmt.Sprintf("%s %v %s %t %s@%s %s", m.Link, m.Addresses, m.Level, m.Antispoof, m.End, m.Bridge, m.MAC)
		}
		if got != test.want || ok && (m.ID != "a" || m.Network != "n" || m.Namespace != "prod" || m.Job != "web" || m.Group != "g") {
			t.Errorf("%s, recorded %+v: %+v, %q, want %q", test.plugins, test.recorded, m, got, test.want)
		}
	}
	a := state.Attachment{Network: "n", Isolation: recorded}
	for _, text := range []string{"fd00:1::ff:fe00:9/64", "fd00:1::66/64", "2001:db8::ff:fe00:9/64", "fd00:1::ff:fe00:8/64"} { // two are made of the MAC
		a.Advertised = append(a.Advertised, netip.MustParsePrefix(text))
	}
	if m, _ := member(of, a, strict); fmt.Sprint(m.Addresses) != "[10.9.0.5 fd00:1::ff:fe00:9 2001:db8::ff:fe00:9]" {
		t.Errorf("with router advertisements it may send from %s", m.Addresses)
	}
	if m, ok := member(of, state.Attachment{}, strict); ok {
		t.Errorf("what is not attached: %+v", m)
	}
}

// TestRecorded: attachments have the levels that their networks have by now, and are where their records have them by now, also if they were read before.
func TestRecorded(t *testing.T) {
	h, _ := newHostOnDisk(t)
	lock, err := h.store.Lock(t.Context(), "a")
	a := state.Attachment{Network: "n", Interface: "eth0", ContainerID: "a", Phase: state.Attached, Batch: state.Batch{Kind: state.BatchSetup}, Isolation: &state.Isolation{Level: "strict", End: "veth9", MAC: "02:00:00:00:00:09"}}
	if err == nil {
		err = lock.Begin(state.Allocation{ID: "a", Mode: state.ModeSetup}, []state.Attachment{a})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	require := func(levels networkLevels, want string) {
		t.Helper()
		members, err := h.recorded(t.Context(), levels)
		if err != nil || len(members) != 1 {
			t.Fatalf("%v, %v, want one", members, err)
		}
		if got := fmt.Sprintf("%s %t %s", members[0].Level, members[0].Antispoof, members[0].MAC); got != want {
			t.Errorf("%v: %q, want %q", levels, got, want)
		}
	}
	synctest.Test(t, func(*testing.T) {
		time.Sleep(time.Until(time.Now().AddDate(200, 0, 0))) // until the record is old
		require(nil, "strict false 02:00:00:00:00:09")
		require(networkLevels{"n": {Level: isolation.Network, Antispoof: true}}, "network true 02:00:00:00:00:09")
		require(nil, "strict false 02:00:00:00:00:09")
		moved := *a.Isolation
		moved.MAC = "02:00:00:00:00:08"
		a.Isolation = &moved
		if err := lock.Write(a); err != nil {
			t.Error(err)
		}
		require(nil, "strict false 02:00:00:00:00:08")
	})
}
