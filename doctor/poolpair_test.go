// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
)

// TestOverlappingPools: two pools with the same addresses are an error where their networks
// meet, and a warning elsewhere. Both ways to ask tell the same.
func TestOverlappingPools(t *testing.T) {
	const both = "%s: network \"b\" has 10.91.0.0/24 in pool \"two\", which overlaps 10.91.0.0/24 in pool \"one\" of network \"a\" (%s): both pools assign the same addresses"
	vlan100 := `"type": "macvlan", "master": "eth0"`
	for name, test := range map[string]struct {
		a, b, onePool, otherPool, want string
	}{
		"one link":          {a: vlan100, b: vlan100, want: "error " + both + ", on master eth0 | use one pool for both networks"},
		"plugins of a link": {a: vlan100, b: `"type": "ipvlan", "master": "eth0"`, want: "error " + both + ", on master eth0"},
		"default link":      {a: `"type": "macvlan"`, b: `"type": "macvlan"`, want: "error " + both + ", on master of the default route"},
		"a device":          {a: `"type": "host-device", "device": "eth1"`, b: `"type": "host-device", "device": "eth1"`, want: "error " + both + ", on device eth1"},
		"a VLAN":            {a: `"type": "vlan", "master": "eth0", "vlanId": 5`, b: `"type": "vlan", "master": "eth0", "vlanId": 5`, want: "error " + both + ", on master eth0, VLAN 5"},
		"two VLANs":         {a: `"type": "vlan", "master": "eth0", "vlanId": 5`, b: `"type": "vlan", "master": "eth0", "vlanId": 6`, want: "warning " + both},
		"two links":         {a: vlan100, b: `"type": "macvlan", "master": "eth1"`, want: "warning " + both + " | if their links are connected, use one pool"},
		"two bridges":       {a: `"type": "bridge", "bridge": "a"`, b: `"type": "bridge", "bridge": "b"`, want: "warning " + both},
		"two gateways":      {a: `"type": "bridge", "bridge": "a", "isGateway": true`, b: `"type": "bridge", "bridge": "b", "isGateway": true`, want: "error " + both + ", and this host forwards for both"},
		"one pool":          {a: vlan100, b: vlan100, otherPool: `"pool": "one", "ranges": [{"subnet": "10.91.0.0/24"}]`},
		"other ranges":      {a: vlan100, b: vlan100, onePool: `"pool": "one", "ranges": [{"subnet": "10.91.0.0/24", "rangeEnd": "10.91.0.99"}]`, otherPool: `"pool": "two", "ranges": [{"subnet": "10.91.0.0/24", "rangeStart": "10.91.0.100"}]`},
		"other subnet":      {a: vlan100, b: vlan100, otherPool: `"pool": "two", "ranges": [{"subnet": "10.92.0.0/24"}]`},
	} {
		one, two := test.onePool, test.otherPool
		if one == "" {
			one = `"pool": "one", "ranges": [{"subnet": "10.91.0.0/24"}]`
		}
		if two == "" {
			two = `"pool": "two", "ranges": [{"subnet": "10.91.0.0/24"}]`
		}
		dir := t.TempDir()
		networks := poolNetworks(t, dir, test.a, one, test.b, two)
		want := test.want
		if want != "" {
			want = fmt.Sprintf(want, filepath.Join(dir, "b.conf"), filepath.Join(dir, "a.conf"))
		}
		requireFinding(t, name, OverlappingPools(networks, ""), want)
		requireFinding(t, name+", of a pool", OverlappingPools(networks, "one"), want)
		requireFinding(t, name+", of another", OverlappingPools(networks, "three"), "")
		r := &Report{}
		sharedSubnets(r, describe(networks[1]), describe(networks[0]))
		requireFinding(t, name+", doctor", r.Findings, want)
	}
}

// poolNetworks returns the networks a and b, each of one plugin with a pool.
func poolNetworks(t *testing.T, dir, a, one, b, two string) []*cniconf.Network {
	t.Helper()
	for name, conf := range map[string][2]string{"a": {a, one}, "b": {b, two}} {
		text := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "%s", %s, "ipam": {"type": "allocnet-ipam", %s}}`, name, conf[0], conf[1])
		if err := os.WriteFile(filepath.Join(dir, name+".conf"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	catalog, err := cniconf.Load(dir)
	if err != nil || len(catalog.Networks) != 2 {
		t.Fatalf("networks: %+v, %v", catalog, err)
	}
	return catalog.Networks
}

func requireFinding(t *testing.T, name string, got []Finding, want string) {
	t.Helper()
	text := ""
	if len(got) > 0 {
		text = fmt.Sprintf("%s %s: %s | %s", got[0].Severity, got[0].Subject, got[0].Problem, got[0].Fix)
	}
	if (want == "") != (text == "") || !strings.HasPrefix(text, want) || len(got) > 1 {
		t.Errorf("%s: got %v, want %q", name, got, want)
	}
}
