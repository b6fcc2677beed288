// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// TestMayOwn: only what is known not to be the attachment's stays.
func TestMayOwn(t *testing.T) {
	const pair, single = `{"interfaces": [{"name": "veth0000000a", "mac": "02:00:00:00:00:99"}, {"name": "net1", "mac": "02:00:00:00:00:01", "sandbox": "/n"}]}`, `{"interfaces": [{"name": "net1", "mac": "02:00:00:00:00:01", "sandbox": "/n"}]}`
	own, outer, inner := "02:00:00:00:00:01", netns.Interface{Name: "net1", MAC: "02:00:00:00:00:02", Link: 3, LinkOutside: true}, netns.Interface{Name: "net1", MAC: "02:00:00:00:77:77", Up: true}
	for name, test := range map[string]struct {
		plugin, result, status string
		planned                bool
		i                      netns.Interface
		want                   bool
	}{
		"its MAC":                             {"bridge", pair, "", false, netns.Interface{Name: "net1", MAC: own}, true},
		"its MAC on record":                   {"bridge", "", `{"mac": "02:00:00:00:00:01"}`, false, netns.Interface{Name: "net1", MAC: strings.ToUpper(own)}, true},
		"a pair with another MAC":             {"bridge", pair, "", false, outer, true},
		"no pair":                             {"bridge", pair, "", false, inner, false},
		"ADD has told nothing":                {"bridge", "", "", false, outer, true},
		"ADD has told nothing, another":       {"ptp", "", "", false, inner, false},
		"macvlan with another MAC":            {`macvlan", "master": "up0`, single, "", false, outer, true},
		"no macvlan":                          {`macvlan", "master": "up0`, single, "", false, inner, false},
		"a master inside":                     {`macvlan", "linkInContainer": true, "master": "net0`, single, "", false, inner, true},
		"of another plugin":                   {"tap", single, "", false, inner, true},
		"a device with another MAC":           {"host-device", single, "", false, netns.Interface{Name: "net1", MAC: "02:00:00:00:77:77", Alias: "lan0"}, true},
		"no device of the host":               {"host-device", single, "", false, inner, false},
		"of another plugin, a pair":           {"other", pair, "", false, outer, true},
		"of another plugin, no pair":          {"other", pair, "", false, inner, false},
		"nothing is left of an attachment":    {"host-device", single, `{"mac": "02:00:00:00:77:77"}`, true, inner, false},
		"another MAC of an unreadable record": {"bridge", "{", "{", false, outer, true},
	} {
		plugin := fmt.Sprintf(`{"type": "%s"}`, test.plugin)
		a := state.Attachment{Interface: "net1", ConfList: fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [%s]}`, plugin)}
		if test.result != "" {
			a.Result = []byte(`{"cniVersion": "1.0.0", ` + strings.TrimPrefix(test.result, "{"))
		}
		if test.status != "" {
			a.Status = []byte(test.status)
		}
		if test.planned {
			a.Planned, a.FormerResult = true, a.Result
		}
		if got := mayOwn(a, test.i); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// TestDeviceIsKnownByItsIndex: the plugin would move whatever has the interface's name to the host, under the name in its alias.
func TestDeviceIsKnownByItsIndex(t *testing.T) {
	conflist := []byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "host-device"}]}`)
	device := netns.Interface{Name: "net1", MAC: "02:00:00:00:00:01", Index: 7, Kind: "device", Alias: "lan0"}
	a := state.Attachment{Interface: "net1", ConfList: conflist, Status: []byte(`{"mac": "02:00:00:00:00:01"}`)}
	list, err := onrecord.List(a)
	if err != nil {
		t.Fatal(err)
	}
	NoteDevice(&a, list, []netns.Interface{device})
	if a.Device != "lan0" || a.DeviceIndex != 7 || a.DeviceKind != "device" {
		t.Errorf("noted %q %d %q", a.Device, a.DeviceIndex, a.DeviceKind)
	}
	for name, test := range map[string]struct {
		change func(i *netns.Interface)
		want   bool
	}{
		"as it was":     {func(*netns.Interface) {}, true},
		"another MAC":   {func(i *netns.Interface) { i.MAC = "02:00:00:00:00:02" }, true},
		"another alias": {func(i *netns.Interface) { i.Alias = "eth9" }, false},
		"another index": {func(i *netns.Interface) { i.Index = 8 }, false},
		"another kind":  {func(i *netns.Interface) { i.Kind = "veth" }, false},
	} {
		i := device
		test.change(&i)
		if got := mayOwn(a, i); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
