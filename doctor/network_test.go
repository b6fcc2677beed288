// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
)

func TestNetworks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"10-a.conf":      `{"cniVersion": "1.0.0", "name": "a", "type": "bridge", "isGateway": true}`,
		"20-a.conf":      `{"cniVersion": "1.0.0", "name": "a", "type": "ptp"}`,
		"30-broken.conf": `{`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &Report{}
	d := &Doctor{ConfDirs: []string{dir}, PolicyFile: filepath.Join(dir, "none")}
	networks := d.networks(r)
	if len(networks) != 1 || networks[0].Name != "a" || !networks[0].routed || len(networks[0].bridges) != 1 || networks[0].bridges[0] != "cni0" {
		t.Errorf("networks %+v, want a, on the bridge plugin's default bridge", networks)
	}
	if len(r.Findings) != 2 || r.Findings[0].Fix != "edit "+dir+"/30-broken.conf" || r.Findings[1].Subject != dir+"/20-a.conf" || !strings.Contains(r.Findings[1].Problem, `has the name "a", too`) {
		t.Errorf("findings %+v, want the broken and the shadowed file", r.Findings)
	}
	if err := os.WriteFile(d.PolicyFile, []byte(`{"namespace": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r = &Report{}
	d.networks(r)
	if len(r.Findings) != 3 || r.Findings[2].Subject != d.PolicyFile || r.Findings[2].Severity != Error {
		t.Errorf("findings %+v, want the policy", r.Findings)
	}
	r = &Report{}
	if none := (&Doctor{ConfDirs: []string{dir + "/none"}}).networks(r); none != nil || len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Fix, "mkdir -p "+dir+"/none") {
		t.Errorf("without a directory: %+v, %+v", none, r.Findings)
	}
}

// TestCrowdedLinks: only a network without IPv6 addresses whose file says nothing of that is reported.
func TestCrowdedLinks(t *testing.T) {
	r := &Report{}
	var networks []network
	attachments := map[string]int{}
	for name, text := range map[string]string{
		"none":   `"type": "bridge"`,
		"many":   `"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}`,
		"six":    `"type": "bridge", "ipam": {"type": "host-local", "subnet": "fd00::/64"}`,
		"wanted": `"type": "bridge", "allocnet": {"ipv6": "link-local"}`,
		"off":    `"type": "bridge", "allocnet": {"ipv6": "off"}`,
		"router": `"type": "bridge", "allocnet": {"acceptRA": true}`,
	} {
		n, err := cniconf.ParseNetwork(name+".conf", []byte(`{"cniVersion": "1.0.0", "name": "`+name+`", `+text+`}`))
		if err != nil {
			t.Fatal(err)
		}
		networks = append(networks, describe(n))
		attachments[name] = crowd + 1
	}
	attachments["none"] = crowd
	crowdedLinks(r, networks, attachments)
	requireFindings(t, r, `warning many.conf: network "many": its 101 attachments have no IPv6 but link-local addresses, which slow down each attach and detach => set "allocnet": {"ipv6": "off"} in many.conf, or "link-local" if tasks need them`)
}

// TestGatewayName: packets of a bridge with a VLAN come from the VLAN's interface, and those of ptp from a pair.
func TestGatewayName(t *testing.T) {
	for plugin, want := range map[string]string{
		`"type": "bridge"`: "cni0", `"type": "bridge", "bridge": "web0"`: "web0", `"type": "bridge", "bridge": "web0", "vlan": 7`: "web0.7",
		`"type": "ptp"`: "veth+", `"type": "macvlan", "master": "eth0"`: "",
	} {
		networks := load(t, map[string]string{"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{` + plugin + `}, {"type": "portmap"}]}`})
		if len(networks) != 1 || networks[0].by != want {
			t.Errorf("%s: %+v, want %s", plugin, networks, want)
		}
	}
}
