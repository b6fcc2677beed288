// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootReturnDevice: whatever a task has done to a device, it goes back under its name, and nothing else does.
func TestRootReturnDevice(t *testing.T) {
	roottest.Require(t)
	const mac = "02:00:00:00:aa:01"
	whole := netns.Device{Name: "lan7", Interface: "net1", MAC: mac}
	known := netns.Device{Name: "lan7", Interface: "net1", MAC: mac, Index: 77, Kind: "veth"}
	for name, test := range map[string]struct {
		device netns.Device
		// task is run in the namespace by ip -batch.
		task string
		// stays is whether the device is not found.
		stays bool
	}{
		"as it was":                        {whole, "", false},
		"down":                             {whole, "link set net1 down", false},
		"renamed":                          {whole, "link set net1 name mine", false},
		"renamed, its name taken":          {whole, "link set net1 name mine\nlink add net1 type veth peer name zz", false},
		"its name on the host taken":       {whole, "link add lan7 type bridge", false},
		"another MAC":                      {whole, "link set net1 address 02:00:00:00:aa:02", false},
		"another MAC and name":             {whole, "link set net1 name mine address 02:00:00:00:aa:02", false},
		"no alias":                         {whole, `link set net1 alias ""`, false},
		"a bridge with its MAC":            {whole, "link set net1 name mine\nlink add vlan0 address " + mac + " type bridge", false},
		"all that a task can change":       {known, `link set net1 name mine address 02:00:00:00:aa:02 alias evil0`, false},
		"one of another kind has it":       {netns.Device{Name: "lan7", Interface: "net1", MAC: mac, Index: 78, Kind: "veth"}, "link set net1 name mine address 02:00:00:00:aa:02 alias \"\"\nlink add net1 address " + mac + " type bridge\nlink set net1 alias lan7", true},
		"its name is only in its alias":    {netns.Device{Interface: "net1"}, "", false},
		"renamed, not on record":           {netns.Device{Interface: "net1"}, "link set net1 name mine", true},
		"another interface of its name":    {netns.Device{Interface: "net1", MAC: mac}, "link set net1 name mine\nlink add net1 type veth peer name zz", true},
		"no alias, and nothing else known": {whole, "link set net1 name mine alias \"\"", true},
	} {
		t.Run(name, func(t *testing.T) {
			path := create(t, "device")
			n := openNamespace(t, path)
			ip(t, "link add lan7 index 77 address "+mac+" type veth peer name lan7peer")
			t.Cleanup(func() { ip(t, "link del lan7peer") })
			ip(t, "link set lan7 netns device name net1 alias lan7")
			ip(t, "-n device link set net1 up")
			for line := range strings.Lines(test.task) {
				sandbox.Run(t, "sh", "-c", "ip -n device "+line)
			}
			for range 2 {
				if err := n.ReturnDevice(test.device); err != nil {
					t.Error(err)
				}
			}
			alias := sandbox.Run(t, "sh", "-c", "cat /sys/class/net/lan7/ifalias || echo none")
			if want := map[bool]string{false: "", true: "none\n"}[test.stays]; alias != want {
				t.Errorf("the host's lan7 has the alias %q, want %q", alias, want)
			}
			if links := sandbox.Run(t, "ip", "-n", "device", "-o", "link"); strings.Contains(test.task, "veth") && !strings.Contains(links, "net1@zz") {
				t.Errorf("the task's interface is not there any more:\n%s", links)
			}
		})
	}
}

// TestRootReturnDeviceLater: while the host has another link of its name a device stays as it is, and the error names both.
func TestRootReturnDeviceLater(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "device"))
	d := netns.Device{Name: "lan7", Interface: "net1", MAC: "02:00:00:00:aa:01"}
	ip(t, fmt.Sprintf("link add net1 address %s netns device type veth peer name lan7peer", d.MAC))
	t.Cleanup(func() { ip(t, "link del lan7peer") })
	ip(t, "link add lan7 type bridge")
	err := n.ReturnDevice(d)
	if err == nil || !strings.Contains(err.Error(), "device lan7 of the host is interface net1 in ") || !strings.Contains(err.Error(), "the host has another link lan7") {
		t.Errorf("%v, want an error with both names", err)
	}
	ip(t, "-n device link show net1")
	ip(t, "link del lan7")
	if err := n.ReturnDevice(d); err != nil {
		t.Error(err)
	}
	ip(t, "link show lan7")
}

// TestRootRestoreDevice: what the kernel has moved to the host when the namespace ended gets its name again, and only that.
func TestRootRestoreDevice(t *testing.T) {
	roottest.Require(t)
	ip(t, "link add net1 address 02:00:00:00:aa:01 type veth peer name lan7peer")
	ip(t, "link set net1 up alias lan7")
	t.Cleanup(func() { ip(t, "link del lan7peer") })
	for _, other := range []netns.Device{{Name: "lan7"}, {Name: "lan8", MAC: "02:00:00:00:aa:01"}, {Name: "lan7", MAC: "02:00:00:00:aa:02"}} {
		if err := netns.RestoreDevice(other); err != nil {
			t.Error(err)
		}
		ip(t, "link show net1")
	}
	for range 2 {
		if err := netns.RestoreDevice(netns.Device{Name: "lan7", Interface: "net1", MAC: "02:00:00:00:aa:01"}); err != nil {
			t.Error(err)
		}
		ip(t, "link show lan7")
	}
}

// TestRootReturnDeviceByIndex: a task can give an interface of its own all that it can change of a device.
func TestRootReturnDeviceByIndex(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "device"))
	d := netns.Device{Name: "lan7", Interface: "net1", MAC: "02:00:00:00:aa:01", Index: 77, Kind: "veth"}
	ip(t, "link add lan7 index 77 address "+d.MAC+" type veth peer name lan7peer")
	t.Cleanup(func() { ip(t, "link del lan7peer") })
	ip(t, "link set lan7 netns device name mine alias mine address 02:00:00:00:aa:02")
	ip(t, "-n device link add net1 address "+d.MAC+" type veth peer name zz")
	ip(t, "-n device link set net1 alias lan7")
	if err := n.ReturnDevice(d); err != nil {
		t.Error(err)
	}
	if links := sandbox.Run(t, "ip", "-o", "link", "show", "lan7"); !strings.Contains(links, "lan7@lan7peer") {
		t.Errorf("the host's lan7 is the task's:\n%s", links)
	}
}

// TestRootReturnedDeviceIsRestored: in its namespace, when it is sure to go back; one that the kernel has moved back, on the host.
func TestRootReturnedDeviceIsRestored(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "device"))
	restored := 0
	d := netns.Device{Name: "lan7", Interface: "net1", MAC: "02:00:00:00:aa:01", Restore: func(link netlink.Link) {
		restored++
		if err := netlink.LinkSetMTU(link, 1450); err != nil {
			t.Error(err)
		}
	}}
	ip(t, "link add lan7 mtu 1300 address "+d.MAC+" type veth peer name lan7peer")
	t.Cleanup(func() { ip(t, "link del lan7peer") })
	ip(t, "link set lan7 netns device name net1 alias lan7")
	ip(t, "link add lan7 type bridge")
	if err := n.ReturnDevice(d); err == nil || restored > 0 {
		t.Errorf("while it stays: %v, restored %d times", err, restored)
	}
	ip(t, "link del lan7")
	for i, goBack := range []func(netns.Device) error{n.ReturnDevice, netns.RestoreDevice} {
		if i > 0 {
			ip(t, "link set lan7 mtu 1300 name eth7 alias lan7")
		}
		if err := goBack(d); err != nil || restored != i+1 {
			t.Errorf("%v, restored %d times", err, restored)
		}
		if out := sandbox.Run(t, "ip", "link", "show", "lan7"); !strings.Contains(out, "mtu 1450") {
			t.Errorf("it is not restored: %s", out)
		}
	}
}

// TestRootKilledRestoration: plugins may have changed the MAC by which the device is known. One that was killed after it was given back
// leaves a device that has its name, or is found again.
func TestRootKilledRestoration(t *testing.T) {
	roottest.Require(t)
	d := netns.Device{Name: "lan7", Interface: "net1", MAC: "02:00:00:00:aa:02", Index: 4711, Restore: func(link netlink.Link) {
		if out := sandbox.Run(t, "ip", "link", "show", "lan7"); !strings.Contains(out, "alias lan7") {
			t.Errorf("it is restored as %s", out)
		}
	}}
	for _, link := range []string{"eth7 address " + d.MAC, "allocnet4711 address 02:00:00:00:aa:01"} {
		ip(t, "link add "+link+" type veth peer name lan7peer")
		ip(t, "link set "+strings.Fields(link)[0]+" alias lan7")
		if err := netns.RestoreDevice(d); err != nil {
			t.Error(err)
		}
		if out := sandbox.Run(t, "ip", "link", "show", "lan7"); strings.Contains(out, "alias") {
			t.Errorf("it has its alias still: %s", out)
		}
		ip(t, "link del lan7peer")
	}
}
