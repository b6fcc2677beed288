// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/isolation"
)

func network(t *testing.T, name, options, plugins string) *cniconf.Network {
	t.Helper()
	n, err := cniconf.ParseNetwork(name+".conflist", fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": %q, "allocnet": %s, "plugins": [%s]}`, name, options, plugins))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLevels: what the keys say, and what they are without.
func TestLevels(t *testing.T) {
	for text, want := range map[string]struct {
		level  isolation.Level
		guards bool
		text   string
	}{
		`{}`:                       {isolation.None, false, "unrestricted"},
		`{"isolation": "none"}`:    {isolation.None, false, "unrestricted"},
		`{"isolation": "network"}`: {isolation.Network, true, "isolation network"},
		`{"isolation": "strict"}`:  {isolation.Strict, true, "isolation strict"},
		`{"isolation": "strict", "antispoof": false}`: {isolation.Strict, false, "isolation strict; no antispoof"},
		`{"antispoof": true, "jobs": ["a"]}`:          {isolation.None, true, "jobs a; antispoof"},
	} {
		if r := source(t, "f", text); r.Level() != want.level || r.Guards() != want.guards || r.Describe() != want.text {
			t.Errorf("%s: level %s, guards %t, %q, want %+v", text, r.Level(), r.Guards(), r.Describe(), want)
		}
	}
}

// TestCheckIsolation: a network that cannot be isolated is refused with the reason, if it asks for that.
func TestCheckIsolation(t *testing.T) {
	const (
		ipam   = `, "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}`
		bridge = `{"type": "bridge", "bridge": "br0", "isGateway": true` + ipam + `}`
	)
	executed := errors.New("executor is \"plugins\"")
	inProcess := func(*cniconf.Network) error { return nil }
	for _, test := range []struct {
		plugins string
		why     error
		want    string // of strict; empty: it can be
		guard   bool   // whether antispoof can be had
	}{
		{bridge, nil, "", true},
		{`{"type": "bridge", "isDefaultGateway": true` + ipam + `}, {"type": "portmap"}, {"type": "firewall"}, {"type": "tuning"}, {"type": "bandwidth"}`, nil, "", true},
		{`{"type": "ptp"` + ipam + `}`, nil, "", true},
		{bridge, executed, `its plugins are executed (executor is "plugins"), which set an interface up before anything guards it`, false},
		{`{"type": "macvlan", "master": "eth1"` + ipam + `}`, nil, "interfaces of the plugin macvlan have no end on the host, where packets could be dropped: want bridge or ptp", false},
		{`{"type": "ipvlan"` + ipam + `}`, executed, "interfaces of the plugin ipvlan have no end on the host", false},
		{`{"type": "host-device"}`, executed, "interfaces of the plugin host-device have no end on the host", false},
		{bridge + `, {"type": "calico"}`, executed, "allocnet does not know what the plugin calico makes on the host: want bridge or ptp", false},
		{`{"type": "loopback"}`, nil, "it has 0 plugins of the types bridge, ptp: want one", false},
		{bridge + `, {"type": "ptp"` + ipam + `}`, nil, "it has 2 plugins of the types bridge, ptp: want one", false},
		{`{"type": "ptp"}`, nil, `the plugin ptp has no "ipam", so that the addresses of its interfaces are not known: add it`, false},
		{`{"type": "bridge", "vlan": 5, "isGateway": true` + ipam + `}`, nil, `the plugin bridge has "vlan"`, false},
		{`{"type": "bridge", "vlanTrunk": [{"id": 5}], "isGateway": true` + ipam + `}`, nil, `the plugin bridge has "vlanTrunk"`, false},
		{`{"type": "bridge"` + ipam + `}`, nil, `the host is not the gateway of the bridge, so that packets to and from elsewhere do not pass it: want "isGateway": true`, true},
	} {
		for options, want := range map[string]string{`{"isolation": "strict"}`: test.want, `{"isolation": "network", "antispoof": false}`: test.want, `{"antispoof": true}`: test.want, `{"narrow": true}`: test.want, `{}`: "", `{"antispoof": false}`: ""} {
			key := `antispoof true`
			if strings.Contains(options, "isolation") {
				key = strings.Replace(strings.Trim(strings.Split(options, ",")[0], "{}"), `"isolation":`, "isolation", 1)
			} else if strings.Contains(options, "narrow") {
				key = "narrow true"
			} else if test.guard {
				want = ""
			}
			n := network(t, "n", options, test.plugins)
			err := CheckIsolation(n, func(*cniconf.Network) error { return test.why })
			prefix := "policy in n.conflist: " + key + `: network "n" cannot have it: `
			if (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), prefix+want) || errdefs.Of(err) != errdefs.Refused) {
				t.Errorf("%s with %s:\ngot  %v\nwant %s%s", test.plugins, options, err, prefix, want)
			}
		}
	}
	for options, want := range map[string]bool{`{"isolation": "strict", "acceptRA": true}`: false, `{"isolation": "strict", "acceptRA": true, "antispoof": false}`: true, `{"acceptRA": true}`: true, `{"isolation": "strict", "acceptRA": true, "awaitRA": true}`: true} {
		if err := CheckIsolation(network(t, "n", options, bridge), inProcess); (err == nil) != want {
			t.Errorf("%s: %v", options, err)
		}
	}
	if err := CheckIsolation(network(t, "n", `{"isolation": "all"}`, bridge), inProcess); err == nil || !strings.Contains(err.Error(), `isolation "all"`) {
		t.Errorf("a level that does not exist: %v", err)
	}
}

// TestCheckBridges: on one bridge packets pass between networks, unless each port is apart from all others.
func TestCheckBridges(t *testing.T) {
	of := func(name, level, bridge string) *cniconf.Network {
		return network(t, name, `{"isolation": "`+level+`"}`, `{"type": "bridge", "bridge": "`+bridge+`", "isGateway": true}`)
	}
	for _, test := range []struct {
		level, bridge string
		allowed       string // levels of another network with br0
	}{
		{"none", "br0", "none"}, {"network", "br0", ""}, {"strict", "br0", "strict"},
		{"none", "br1", "none network strict"}, {"strict", "br1", "none network strict"},
	} {
		n := of("n", test.level, test.bridge)
		for _, level := range []string{"none", "network", "strict"} {
			other := of("other", level, "br0")
			err := CheckBridges(n, []*cniconf.Network{n, other})
			if want := strings.Contains(test.allowed, level); (err == nil) != want || err != nil && !strings.Contains(err.Error(), `policy in n.conflist: isolation "`+test.level+`": network "n" has the bridge br0 of network "other", whose isolation is "`+level+`" (other.conflist)`) {
				t.Errorf("%s on %s beside %s: %v, want it allowed: %t", test.level, test.bridge, level, err, want)
			}
		}
	}
	for first, second := range map[string]string{`"bridge": "br0"`: `"bridge": "\u0062r0"`, `"isGateway": true`: `"isGateway": false`, `"bridge": "cni0"`: `"isGateway": false`, `"isGateway": false`: `"bridge": "cni0"`, `"isDefaultGateway": true`: `"Bridge": "cni0"`} {
		n, other := network(t, "n", "{}", `{"type": "bridge", `+first+`}`), network(t, "other", `{"isolation": "network"}`, `{"type": "bridge", `+second+`}`)
		if CheckBridges(n, []*cniconf.Network{other}) == nil || CheckBridges(other, []*cniconf.Network{n}) == nil {
			t.Errorf("%s and %s are not one bridge", first, second)
		}
	}
	if err := CheckBridges(of("n", "strict", "br0"), []*cniconf.Network{network(t, "other", "{}", `{"type": "ptp"}`), of("n", "none", "br0")}); err != nil {
		t.Errorf("without a common bridge: %v", err)
	}
}

// TestDocumented: the network of docs/isolation.md can be isolated.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```json\n(.*?)\n```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/isolation.md has no conflist")
	}
	n, err := cniconf.ParseNetwork("db.conflist", block[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckIsolation(n, func(*cniconf.Network) error { return nil }); err != nil || n.Name != "db" {
		t.Errorf("%s: %v", n.Name, err)
	}
	if r, err := Of(n); err != nil || r.Level() != isolation.Strict {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestEnforceInside: interfaces without an end on the host can be isolated inside, whatever executes their plugins, and others not.
func TestEnforceInside(t *testing.T) {
	const ipam = `, "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}`
	const strict = `{"isolation": "strict", "enforce": "inside"}`
	for _, test := range []struct{ options, plugins, want string }{
		{strict, `{"type": "macvlan"` + ipam, ""}, {strict, `{"type": "ipvlan"` + ipam + `, {"type": "tuning"}`, ""}, {strict, `{"type": "vlan"` + ipam, ""}, {strict, `{"type": "host-device"` + ipam, ""},
		{strict, `{"type": "macvlan", "ipam": {"type": "dhcp"}}`, ""},
		{`{"antispoof": true, "enforce": "inside"}`, `{"type": "macvlan"` + ipam, ""}, {`{"narrow": true, "enforce": "inside"}`, `{"type": "macvlan"` + ipam, ""},
		{strict, `{"type": "bridge", "isGateway": true` + ipam, `enforce "inside": network "n" cannot have it: interfaces of the plugin bridge have an end on the host`},
		{strict, `{"type": "ptp"` + ipam, `enforce "inside": network "n" cannot have it: interfaces of the plugin ptp have an end on the host`},
		{strict, `{"type": "calico"` + ipam, "allocnet does not know what the plugin calico makes: want one of host-device, ipvlan, macvlan"},
		{strict, `{"type": "host-device"}`, `the plugin host-device has no "ipam"`}, {strict, `{"type": "loopback"}`, "it has 0 plugins of the types host-device"},
		{`{"isolation": "strict", "enforce": "inside", "acceptRA": true}`, `{"type": "macvlan"` + ipam, "with acceptRA its interfaces give themselves addresses"},
	} {
		err := CheckIsolation(network(t, "n", test.options, test.plugins), func(*cniconf.Network) error { return errors.New("executor is \"plugins\"") })
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s of %s: %v, want %q", test.options, test.plugins, err, test.want)
		}
	}
	for options, want := range map[string]string{
		`{"enforce": "inside"}`:                                            `enforce "inside": want isolation "network" or "strict", antispoof true or narrow true, too`,
		`{"isolation": "strict", "enforce": "outside"}`:                    `enforce "outside": want "inside", or omit it`,
		`{"isolation": "strict", "enforce": "inside", "fromHost": false}`:  `fromHost false: omit it with enforce "inside"`,
		`{"isolation": "strict", "antispoof": false, "enforce": "inside"}`: "",
	} {
		if _, err := Of(network(t, "n", options, `{"type": "macvlan"}`)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}
