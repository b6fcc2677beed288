// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package tuning

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestTuningSettings: the settings that count when the call asks for others.
func TestTuningSettings(t *testing.T) {
	for name, test := range map[string]struct {
		config, args string
		want         linkSettings
		err          string
	}{
		"none":           {config: `"promisc": false`},
		"configured":     {config: `"mac": "02:00:00:00:00:01", "mtu": 1400, "txQLen": 0, "allmulti": false, "promisc": true`, want: linkSettings{MAC: "02:00:00:00:00:01", MTU: 1400, TxQLen: new(int), Allmulti: new(bool), Promisc: pointer(true)}},
		"CNI_ARGS":       {config: `"mac": "02:00:00:00:00:01"`, args: "MAC=02:00:00:00:00:02", want: linkSettings{MAC: "02:00:00:00:00:02"}},
		"capability":     {config: `"runtimeConfig": {"mac": "02:00:00:00:00:03"}`, args: "MAC=02:00:00:00:00:02", want: linkSettings{MAC: "02:00:00:00:00:03"}},
		"args":           {config: `"runtimeConfig": {"mac": "02:00:00:00:00:03"}, "mtu": 1400, "args": {"cni": {"mac": "02:00:00:00:00:04", "mtu": 1300, "txQLen": 5, "allmulti": true, "promisc": true}}`, want: linkSettings{MAC: "02:00:00:00:00:04", MTU: 1300, TxQLen: pointer(5), Allmulti: pointer(true), Promisc: pointer(true)}},
		"args, less":     {config: `"promisc": true, "mtu": 1400, "args": {"cni": {"promisc": false, "mtu": 0}}`},
		"sysctl in args": {config: `"sysctl": {}, "args": {"cni": {"sysctl": {"net.x": "1"}}}`},
		"sysctl nowhere": {config: `"args": {"cni": {"sysctl": {"net.x": "1"}}}`, err: "must have sysctl"},
		"unknown args":   {config: `"mtu": 1400`, args: "OTHER=1", err: "unknown args"},
		"no mtu":         {config: `"mtu": "1400"`, err: "failed to load netconf"},
	} {
		conf, err := parse(&plugin.Call{Config: []byte(`{"cniVersion": "1.0.0", "name": "net", ` + test.config + `}`), Args: test.args})
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", name, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, conf.link()); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

func pointer[T any](value T) *T { return &value }

// TestBackup: the file is that of the plugin.
func TestBackup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c1_eth0.json")
	settings := linkSettings{MAC: "02:00:00:00:00:01", Promisc: pointer(false), MTU: 1500, TxQLen: pointer(1000)}
	if err := settings.backup(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	want := "{\n \"mac\": \"02:00:00:00:00:01\",\n \"promisc\": false,\n \"mtu\": 1500,\n \"txQLen\": 1000\n}"
	if err != nil || string(data) != want {
		t.Errorf("%s, %v, want %s", data, err, want)
	}
	if got, err := readLinkSettings(path); err != nil || !cmp.Equal(got, settings) {
		t.Errorf("read %+v, %v", got, err)
	}
}

// TestBackupFails: settings that cannot be saved are an error.
func TestBackupFails(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "file", "c_eth0.json"): "failed to create backup directory", dir: "failed to save file"} {
		if err := (linkSettings{MTU: 1500}).backup(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// TestRootUnsavedSettingIsNotChanged: DEL could not restore it.
func TestRootUnsavedSettingIsNotChanged(t *testing.T) {
	roottest.Require(t)
	netns := namespaceWith(t, netlink.LinkAttrs{Name: "eth0", MTU: 1450})
	c := &plugin.Call{ContainerID: "c", IfName: "eth0", Netns: fmt.Sprint("/proc/self/fd/", netns.Fd()), Config: []byte(
		`{"cniVersion": "1.0.0", "name": "n", "type": "tuning", "dataDir": "/dev/null", "mtu": 1400, "prevResult": {"cniVersion": "1.0.0"}}`)}
	if _, err := add(c); err == nil || !strings.Contains(err.Error(), "failed to create backup directory") {
		t.Errorf("ADD: %v", err)
	}
	err := within.Namespace(netns, func(ns.NetNS) error {
		link, err := netlink.LinkByName("eth0")
		if err == nil && link.Attrs().MTU != 1450 {
			t.Errorf("the MTU is %d", link.Attrs().MTU)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnlistedSysctls: ADD refuses them before it changes anything.
func TestUnlistedSysctls(t *testing.T) {
	usual := sysctlAllowlist
	t.Cleanup(func() { sysctlAllowlist = usual })
	sysctlAllowlist = filepath.Join(t.TempDir(), "allowlist.conf")
	if err := os.WriteFile(sysctlAllowlist, []byte("\n  ^net.ipv4.conf.IFNAME.rp_filter$\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"net.ipv4.conf.IFNAME.rp_filter": "Required prevResult missing",
		"net.core.somaxconn":             "Sysctl net.core.somaxconn is not allowed",
	} {
		config := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "n", "type": "tuning", "sysctl": {%q: "1"}}`, key)
		if _, err := add(&plugin.Call{Config: []byte(config)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want %q", key, err, want)
		}
	}
}

// namespaceWith makes a namespace with a link, which ends with the test.
func namespaceWith(t *testing.T, link netlink.LinkAttrs) ns.NetNS {
	t.Helper()
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	if err := within.Namespace(netns, func(ns.NetNS) error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: link}) }); err != nil {
		t.Fatal(err)
	}
	return netns
}

// TestRootSettingsAreRestored: ADD keeps those that the link had, and DEL restores them.
func TestRootSettingsAreRestored(t *testing.T) {
	roottest.Require(t)
	netns := namespaceWith(t, netlink.LinkAttrs{Name: "eth0", MTU: 1450})
	c := &plugin.Call{ContainerID: "c", IfName: "eth0", Netns: fmt.Sprint("/proc/self/fd/", netns.Fd()), Config: fmt.Appendf(nil,
		`{"cniVersion": "1.0.0", "name": "n", "type": "tuning", "dataDir": %q, "mtu": 1400, "prevResult": {"cniVersion": "1.0.0"}}`, t.TempDir())}
	requireMTU := func(want int) {
		t.Helper()
		err := within.Namespace(netns, func(ns.NetNS) error {
			got, err := netlink.LinkByName("eth0")
			if err == nil && got.Attrs().MTU != want {
				t.Errorf("the MTU is %d, want %d", got.Attrs().MTU, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := add(c); err != nil {
		t.Fatal(err)
	}
	requireMTU(1400)
	if err := del(c); err != nil {
		t.Fatal(err)
	}
	requireMTU(1450)
}

// TestSettingsThatStay: DEL removes the file of the settings, whatever is in it and also without the namespace, or fails.
func TestSettingsThatStay(t *testing.T) {
	dir := t.TempDir()
	c := &plugin.Call{ContainerID: "c", IfName: "eth0", Config: fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "type": "tuning", "dataDir": %q}`, dir)}
	path := filepath.Join(dir, "c_eth0.json")
	for _, content := range []string{`{"mtu": 1500}`, "damaged"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := del(c); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: the file is there still: %v", content, err)
		}
	}
	if err := del(c); err != nil {
		t.Errorf("without the file: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(path, "in use"), 0o700); err != nil { // cannot be removed, even by root
		t.Fatal(err)
	}
	if err := del(c); err == nil {
		t.Error("DEL succeeds, and leaves the file")
	}
}

// TestRootSettingIsNamed: a setting that the kernel refuses is named, with its value.
func TestRootSettingIsNamed(t *testing.T) {
	roottest.Require(t)
	netns := namespaceWith(t, netlink.LinkAttrs{Name: "eth0"})
	for settings, want := range map[string]string{
		`"mtu": 10`: `set {"mtu":10} of eth0: `,
		`"sysctl": {"net.ipv4.conf.eth0.rp_filter": "on"}`: `set sysctl net.ipv4.conf.eth0.rp_filter to "on": `,
	} {
		c := &plugin.Call{ContainerID: "c", IfName: "eth0", Netns: fmt.Sprint("/proc/self/fd/", netns.Fd()), Config: fmt.Appendf(nil,
			`{"cniVersion": "1.0.0", "name": "n", "type": "tuning", "dataDir": %q, %s, "prevResult": {"cniVersion": "1.0.0"}}`, t.TempDir(), settings)}
		if _, err := add(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", settings, err, want)
		}
	}
}

// TestCompare: each setting is compared, and those that are not configured are not.
func TestCompare(t *testing.T) {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "eth0", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Promisc: 1, MTU: 1400, RawFlags: unix.IFF_ALLMULTI, TxQLen: 5}}
	same := linkSettings{MAC: "02:00:00:00:00:01", Promisc: pointer(true), MTU: 1400, Allmulti: pointer(true), TxQLen: pointer(5)}
	for _, s := range append(same.each(), same, linkSettings{}) {
		if err := s.compare(link); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	other := linkSettings{MAC: "02:00:00:00:00:02", Promisc: pointer(false), MTU: 1500, Allmulti: pointer(false), TxQLen: pointer(6)}
	if all := other.each(); len(all) != 5 {
		t.Errorf("%d settings, want 5", len(all))
	}
	if single := (linkSettings{MTU: 1400}).each(); len(single) != 1 {
		t.Errorf("%d settings, want one", len(single))
	}
	for _, s := range other.each() {
		if err := s.compare(link); err == nil {
			t.Errorf("%+v is not noticed", s)
		}
	}
}

// TestRepairOfAWrongSysctl: a key that is refused is an error, and is not tried.
func TestRepairOfAWrongSysctl(t *testing.T) {
	conf := &config{Sysctl: map[string]string{"kernel.domainname": "x"}}
	if err := conf.repairSysctls(&plugin.Call{IfName: "eth0"}); err == nil {
		t.Error("it is no error")
	}
}

// TestWrongSettings: ADD refuses a configuration that it cannot read, with or without parameters.
func TestWrongSettings(t *testing.T) {
	for config, want := range map[string]string{
		`"mtu": "1400"`: "failed to load netconf",
		`"sysctl": {"net.core.somaxconn": "1", "net.core.somaxconn": "2"}`: "duplicated sysctl keys",
	} {
		if _, err := add(&plugin.Call{Config: []byte(`{"cniVersion": "1.0.0", "name": "net", ` + config + `}`)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
}

// TestRootSettingsAreRepaired: those that the link does not have are made, and one that the kernel refuses is an error.
func TestRootSettingsAreRepaired(t *testing.T) {
	roottest.Require(t)
	netns := namespaceWith(t, netlink.LinkAttrs{Name: "eth0"})
	c := &plugin.Call{ContainerID: "c", IfName: "eth0", Netns: fmt.Sprint("/proc/self/fd/", netns.Fd())}
	for _, test := range []struct {
		settings, refused string
		missing           int
	}{
		{settings: `"mac": "02:00:00:00:00:01", "promisc": true, "mtu": 1400, "allmulti": true, "txQLen": 5`, missing: 5},
		{settings: `"mac": "02:00:00:00:00:01", "promisc": true, "mtu": 1400, "allmulti": true, "txQLen": 6`, missing: 1},
		{settings: `"promisc": true, "allmulti": false`, missing: 1},
		{settings: `"mtu": 10`, missing: 1, refused: `set {"mtu":10} of eth0: `},
	} {
		c.Config = fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "type": "tuning", "prevResult": {"cniVersion": "1.0.0"}, %s}`, test.settings)
		c.Repair = &remedy.Repair{}
		if err := repair(c); (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) || len(c.Repair.Missing) != test.missing {
			t.Errorf("%s: %v, missing are %q", test.settings, err, c.Repair.Missing)
		}
		if c.Repair = (&remedy.Repair{DryRun: true}); repair(c) != nil || c.Repair.Found() != (test.refused != "") {
			t.Errorf("%s: missing still are %q", test.settings, c.Repair.Missing)
		}
	}
}
