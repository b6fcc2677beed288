// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestDeviceNames fit, and differ.
func TestDeviceNames(t *testing.T) {
	seen := map[string]string{}
	for _, pool := range []string{"net", "twelve-bytes", "thirteenbytes", "thirteenbytes-more", "thirteenbytes-most"} {
		name := deviceName(pool)
		if len(name) > 15 || seen[name] != "" || len(pool) <= 12 && name != "vx-"+pool {
			t.Errorf("%s: %s, also of %q", pool, name, seen[name])
		}
		seen[name] = pool
	}
}

// TestDeviceMAC: it is a device's own, stable, and that of one address and one pool.
func TestDeviceMAC(t *testing.T) {
	seen := map[string]bool{}
	for _, host := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
		for _, pool := range []string{"x", "y"} {
			mac := deviceMAC(ip(host), pool)
			if err := (ipam.Endpoint{Address: ip("192.0.2.1"), MAC: mac}).Validate(); err != nil || seen[mac] || mac != deviceMAC(ip(host), pool) {
				t.Errorf("%s %s: %s, %v", host, pool, mac, err)
			}
			seen[mac] = true
		}
	}
}

func TestLinkLocalOf(t *testing.T) {
	for mac, want := range map[string]netip.Addr{
		"02:00:5e:00:53:01": ip("fe80::5eff:fe00:5301"), "86:a1:5e:4f:cc:d4": ip("fe80::84a1:5eff:fe4f:ccd4"),
		"": {}, "x": {}, "00:00:00:00:00:00:00:01": {},
	} {
		if got := linkLocalOf(mac); got != want {
			t.Errorf("%s: %s, want %s", mac, got, want)
		}
	}
}

// TestRepairedDevice: what was changed is changed back, and routes are complete again. What can be
// changed in place is.
func TestRepairedDevice(t *testing.T) {
	target := to("10.60.1.0/26", "b", "192.0.2.2", macB)
	for name, test := range map[string]struct {
		spoil  func(*link)
		remade bool
	}{
		"MAC":          {func(l *link) { l.mac = "02:00:00:00:00:99" }, false},
		"MTU":          {func(l *link) { l.mtu = 1500 }, false},
		"down":         {func(l *link) { l.up = false }, false},
		"sysctls":      {func(l *link) { l.tuned = false }, false},
		"no IPv4":      {func(l *link) { l.hasIPv4 = false }, false},
		"link-local":   {func(l *link) { l.linkLocal = netip.Addr{} }, false},
		"no alias yet": {func(l *link) { l.alias = "" }, false},
		"ID":           {func(l *link) { l.id = 9 }, true},
		"port":         {func(l *link) { l.port = 8472 }, true},
		"source":       {func(l *link) { l.local = ip("192.0.2.8") }, true},
		"flooding":     {func(l *link) { l.flooding = true }, true},
		"name":         {func(l *link) { l.name = "renamed" }, true},
		"IPv6 is off":  {func(l *link) { l.ipv6, l.linkLocal = false, netip.Addr{} }, false},
		"no IPv6":      {func(l *link) { l.noIPv6, l.ipv6, l.linkLocal, l.mtu = true, false, netip.Addr{}, 1400 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := newFake(), testPool(ipam.ModeVXLAN)
			table := start(t, f, p)
			apply(t, table, p, target)
			want, index := f.state(), f.link("vx-net").index
			test.spoil(f.link("vx-net"))
			if name == "MAC" {
				f.forget("vx-net", false)
			}
			if name == "name" {
				f.forget("vx-net", true)
			}
			if report := apply(t, table, p, target); report.Routes[0].State != Installed {
				t.Errorf("%+v", report)
			}
			requireState(t, f, want)
			if remade := f.link("vx-net").index != index; remade != test.remade {
				t.Errorf("made again is %t, want %t", remade, test.remade)
			}
			if again := apply(t, table, p, target); again.Added+again.Replaced+again.Removed != 0 {
				t.Errorf("the second time: %+v", again)
			}
		})
	}
}

// TestIPv6Off: where new interfaces have no IPv6, a device gets it if its pool needs it.
func TestIPv6Off(t *testing.T) {
	for name, test := range map[string]struct {
		subnets []netip.Prefix
		local   netip.Addr
		want    bool
	}{
		"IPv6 blocks": {[]netip.Prefix{cidr("10.60.0.0/16"), cidr("fd60::/112")}, local.Address, true},
		"IPv6 hosts":  {[]netip.Prefix{cidr("10.60.0.0/16")}, ip("2001:db8::1"), true},
		"IPv4 only":   {[]netip.Prefix{cidr("10.60.0.0/16")}, local.Address, false},
	} {
		f, p := newFake(), testPool(ipam.ModeVXLAN)
		f.ipv6Off, p.Subnets = true, test.subnets
		table := newTable(Options{Dir: t.TempDir()}, f)
		for range 2 {
			f.log = nil
			if _, _, err := table.Device(p, ipam.Endpoint{Address: test.local}); err != nil {
				t.Fatal(err)
			}
		}
		if l := f.link("vx-net"); l.ipv6 != test.want || l.linkLocal.IsValid() != test.want || len(f.log) > 0 {
			t.Errorf("%s: %+v, changed again: %v", name, l, f.log)
		}
	}
}

// TestForeignDevice: an interface of others with the name of the device stays, whatever it is.
func TestForeignDevice(t *testing.T) {
	mac := deviceMAC(local.Address, "net")
	for name, foreign := range map[string]link{
		"dummy":            {device: device{name: "vx-net", mac: mac, up: true}, kind: "dummy", index: 9},
		"dummy with alias": {device: device{name: "vx-net", mac: mac, alias: "allocnet pool net", up: true}, kind: "dummy", index: 9},
		"VXLAN":            {device: device{name: "vx-net", mac: macB, id: 7, port: 4789, up: true}, kind: "vxlan", index: 9},
		"another's alias":  {device: device{name: "vx-net", mac: mac, alias: "other", local: local.Address, up: true}, kind: "vxlan", index: 9},
	} {
		f, p := newFake(), testPool(ipam.ModeAuto)
		f.hops[ip("198.51.100.3")] = behindRouter
		f.links = append(f.links, foreign)
		before := f.foreignState()
		table := newTable(Options{Dir: t.TempDir()}, f)
		if _, _, err := table.Device(p, local); !errors.Is(err, errForeignDevice) || !strings.Contains(err.Error(), "vx-net") {
			t.Errorf("%s: %v", name, err)
		}
		report, err := table.Apply(p, nil, []Target{to("10.60.1.0/26", "b", "192.0.2.2", macB), to("10.60.2.0/26", "c", "198.51.100.3", macC)})
		if !errors.Is(err, errForeignDevice) || report.Routes[0].State != Installed || report.Routes[1].State != Failed {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		err = errors.Join(table.Remove(p), table.RemoveAll())
		if err != nil || f.foreignState() != before || f.state() != "" {
			t.Errorf("%s: %v\n%s\n%s", name, err, f.state(), f.foreignState())
		}
	}
}

// TestDeviceInUse: another VXLAN device has the identifier.
func TestDeviceInUse(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	f.links = append(f.links, link{device: device{name: "flannel.7", id: 7, port: 4789}, kind: "vxlan", index: 9})
	table := newTable(Options{Dir: t.TempDir()}, f)
	if _, _, err := table.Device(p, local); err == nil {
		t.Error("made")
	}
	report, err := table.Apply(p, nil, []Target{to("10.60.1.0/26", "b", "192.0.2.2", macB)})
	if err == nil || report.Routes[0].State != Failed || f.link("flannel.7") == nil {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestLostAddress: the routes stay while no interface has the host's address.
func TestLostAddress(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	table := start(t, f, p)
	target := to("10.60.1.0/26", "b", "192.0.2.2", macB)
	apply(t, table, p, target)
	want := f.state()
	f.addresses[1].Addr = ip("192.0.2.100")
	if _, err := table.Apply(p, nil, []Target{target}); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Error(err)
	}
	requireState(t, f, want)
	if _, _, err := table.Device(p, ipam.Endpoint{Address: ip("192.0.2.100")}); err != nil {
		t.Fatal(err)
	}
	apply(t, table, p, target)
	moved := strings.NewReplacer("local 192.0.2.1 ", "local 192.0.2.100 ", deviceMAC(local.Address, "net"), deviceMAC(ip("192.0.2.100"), "net"))
	requireState(t, f, moved.Replace(want))
}

// TestAnnouncedAddress: a host whose address is on lo sends by the default route.
func TestAnnouncedAddress(t *testing.T) {
	for mtu, routes := range map[int][]entry{
		8950: {{prefix: cidr("::/0"), device: "lo"}, {prefix: cidr("0.0.0.0/0"), via: ip("192.0.2.254"), device: "eth0"}},
		1450: nil,
	} {
		f, p := newFake(), testPool(ipam.ModeVXLAN)
		f.addresses = append(f.addresses, address{ip("203.0.113.1"), "lo", true})
		f.link("eth0").mtu, f.routes = 9000, routes
		table := newTable(Options{Dir: t.TempDir()}, f)
		if _, got, err := table.Device(p, ipam.Endpoint{Address: ip("203.0.113.1")}); got != mtu || err != nil {
			t.Errorf("MTU %d, error %v, want %d", got, err, mtu)
		}
	}
}

// TestRemoveAll: also what is not on record, or on a record that is damaged.
func TestRemoveAll(t *testing.T) {
	f, p := newFake(), testPool(ipam.ModeVXLAN)
	before := f.foreignState()
	apply(t, start(t, f, p), p, to("10.60.1.0/26", "b", "192.0.2.2", macB))
	if err := newTable(Options{Dir: t.TempDir() + "/missing"}, f).RemoveAll(); err != nil || f.state() != "" || f.foreignState() != before {
		t.Errorf("%v\n%s", err, f.state())
	}
}
