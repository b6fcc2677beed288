// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/nomad/driver/drivertest"
	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// TestFingerprint: the attributes follow the CNI configuration directory, by inotify
// events alone.
func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	conf, plugins, leases := filepath.Join(dir, "conf"), filepath.Join(dir, "plugins"), filepath.Join(dir, "leases")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(plugins+"/bridge", "", 0o700)
	write(plugins+"/host-local", "", 0o700)
	d := newTestDriver(&engineFake{})
	d.settings.config.ConfDirs, d.settings.config.PluginDirs, d.settings.config.StateDir = []string{conf}, []string{plugins}, dir
	stream, err := drivertest.Fingerprint(t.Context(), serve(t, d), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(health proto.FingerprintResponse_HealthState, description string) map[string]string {
		t.Helper()
		f, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if f.Health != health || !strings.Contains(f.HealthDescription, description) {
			t.Errorf("%d %q, want %d %q", f.Health, f.HealthDescription, health, description)
		}
		attributes := map[string]string{}
		for name, a := range f.Attributes {
			attributes[name] = *a.StringVal
		}
		return attributes
	}
	const healthy, unhealthy = proto.FingerprintResponse_HEALTHY, proto.FingerprintResponse_UNHEALTHY
	if got := next(unhealthy, "does not exist"); got["driver.allocnet"] != "1" {
		t.Errorf("attributes %v", got)
	}

	write(leases+"/storage/10.1.0.5", "", 0o600)
	write(conf+"/storage.conf", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "storage", "type": "bridge", "mtu": 1400,
		"ipam": {"type": "host-local", "dataDir": %q, "subnet": "10.1.0.0/28"}}`, leases), 0o600)
	got := next(healthy, "Healthy")
	for name, want := range map[string]string{
		"driver.allocnet.network.storage": "1", "driver.allocnet.network.storage.subnet": "10.1.0.0/28",
		"driver.allocnet.network.storage.mtu": "1400", "unique.driver.allocnet.network.storage.free": "12",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}

	write(conf+"/other.conf", `{"cniVersion": "1.0.0", "name": "other", "type": "vendor"}`, 0o600)
	if got := next(healthy, `Degraded: network "other"`); got["driver.allocnet.network.other"] != "" || got["driver.allocnet.network.storage"] != "1" {
		t.Errorf("with a plugin missing: %v", got)
	}
	write(plugins+"/vendor", "", 0o700)
	if got := next(healthy, "Healthy"); got["driver.allocnet.network.other"] != "1" {
		t.Errorf("with the plugin there: %v", got)
	}
	write(conf+"/other.conf", "{", 0o600)
	if err := os.Remove(conf + "/storage.conf"); err != nil {
		t.Fatal(err)
	}
	got = next(unhealthy, "other.conf:1:")
	for _, name := range []string{"driver.allocnet.network.storage", "driver.allocnet.network.storage.mtu", "driver.allocnet.network.other"} {
		if value, sent := got[name]; !sent || value != "" {
			t.Errorf("%s is %q, %t, want it sent as empty, so that Nomad deletes it", name, value, sent)
		}
	}
}

// TestFingerprintTakesBack: a network went while no process watched.
func TestFingerprintTakesBack(t *testing.T) {
	d := newTestDriver(&engineFake{})
	d.settings.config.ConfDirs, d.settings.config.StateDir = []string{t.TempDir()}, t.TempDir()
	gone := networkAttributes(&cniconf.Network{Name: "gone", List: &libcni.NetworkConfigList{}})
	d.settings.saveOffered(&proto.FingerprintResponse{Attributes: gone})
	stream, err := drivertest.Fingerprint(t.Context(), serve(t, d), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if a, sent := f.Attributes["driver.allocnet.network.gone"]; !sent || *a.StringVal != "" {
		t.Errorf("attributes %v, want the one that is gone sent as empty", f.Attributes)
	}
}

func TestPool(t *testing.T) {
	leases := t.TempDir()
	for _, name := range []string{"10.1.0.5", "10.1.0.99", "fd00::7", "last_reserved_ip.0", "lock"} {
		if err := os.MkdirAll(leases+"/n", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(leases+"/n/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		ipam, subnets string
		free          int
	}{
		// 16 addresses without network, broadcast, gateway and one lease
		"a subnet":               {`"subnet": "10.1.0.0/28"`, "10.1.0.0/28", 12},
		"its gateway elsewhere":  {`"subnet": "10.1.0.0/28", "gateway": "10.1.0.14"`, "10.1.0.0/28", 12},
		"a range":                {`"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.4", "rangeEnd": "10.1.0.7"`, "10.1.0.0/24", 3},
		"two ranges of a set":    {`"ranges": [[{"subnet": "10.1.0.0/28"}, {"subnet": "10.2.0.0/30"}]]`, "10.1.0.0/28,10.2.0.0/30", 13},
		"the scarcest of two":    {`"ranges": [[{"subnet": "10.2.0.0/30"}], [{"subnet": "fd00::/64"}]]`, "10.2.0.0/30,fd00::/64", 1},
		"more than can be used":  {`"subnet": "fd00::/64"`, "fd00::/64", 1<<31 - 1},
		"IPv6 has no broadcast":  {`"subnet": "fd00::/125"`, "fd00::/125", 5},
		"host bits in a subnet":  {`"subnet": "10.2.0.3/30"`, "10.2.0.3/30", 1},
		"nothing that is usable": {`"ranges": [[]]`, "", 0},
	} {
		conf := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "n", "type": "bridge", "ipam": {"type": "host-local", "dataDir": %q, %s}}`, leases, test.ipam)
		list, err := cniconf.ParseList([]byte(conf))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p, ok := addressPool(&cniconf.Network{Name: "n", List: list})
		free, err := p.free()
		if !ok || err != nil || p.subnets() != test.subnets || free != test.free {
			t.Errorf("%s: %s has %d free, %v, want %s and %d", name, p.subnets(), free, err, test.subnets, test.free)
		}
	}
	list, err := cniconf.ParseList(json.RawMessage(`{"cniVersion": "1.0.0", "name": "n", "type": "macvlan", "ipam": {"type": "dhcp"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := addressPool(&cniconf.Network{Name: "n", List: list}); ok {
		t.Error("DHCP has no pool that is known here")
	}
}
