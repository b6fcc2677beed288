// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/portmap"
)

// TestChoices: rules apply to an option however the job requests it.
// TestChoices: whatever way an address comes in, it is chosen.
func TestChoices(t *testing.T) {
	const guid = "02:00:00:00:00:00:00:01"
	for name, test := range map[string]struct {
		element Element
		args    map[string]string
		want    string
	}{
		"none":            {element: Element{Name: "a", MTU: 1400, CNIArgs: map[string]any{"other": 1}}, args: map[string]string{"NOMAD_JOB_ID": "10.0.0.1"}, want: "[] []"},
		"ips":             {element: Element{IPs: []string{"10.0.0.1", "fd00::1/64", "::ffff:10.0.0.2/120"}}, want: "[10.0.0.1/-1 fd00::1/64 10.0.0.2/24] []"},
		"ips in args":     {element: Element{CNIArgs: map[string]any{"IPs": []string{"10.0.0.1"}}}, want: "[10.0.0.1/-1] []"},
		"a list in args":  {element: Element{CNIArgs: map[string]any{"ips": []any{"10.0.0.1/8", "fd00::1"}}}, want: "[10.0.0.1/8 fd00::1/-1] []"},
		"a text in args":  {element: Element{CNIArgs: map[string]any{"IP": "10.0.0.1, 10.0.0.2"}}, want: "[10.0.0.1/-1 10.0.0.2/-1] []"},
		"both spellings":  {element: Element{CNIArgs: map[string]any{"ips": "10.0.0.1", "IPS": "10.0.0.2"}}, want: "[10.0.0.2/-1 10.0.0.1/-1] []"},
		"CNI_ARGS":        {args: map[string]string{"IP": "10.0.0.1/8", "MAC": "02:00:00:00:00:0A"}, want: "[10.0.0.1/8] [02:00:00:00:00:0a]"},
		"mac":             {element: Element{MAC: "02-00-00-00-00-0A"}, want: "[] [02:00:00:00:00:0a]"},
		"mac in args":     {element: Element{CNIArgs: map[string]any{"MAC": "02:00:00:00:00:01"}}, want: "[] [02:00:00:00:00:01]"},
		"guid":            {element: Element{InfinibandGUID: guid}, want: "[] [" + guid + "]"},
		"guid in args":    {element: Element{CNIArgs: map[string]any{"Guid": guid}}, want: "[] [" + guid + "]"},
		"guid as in CNI":  {element: Element{CNIArgs: map[string]any{"infinibandguid": guid}}, want: "[] [" + guid + "]"},
		"no address":      {element: Element{CNIArgs: map[string]any{"ips": "x"}}, want: `cni-args.ips: "x": ` + wantAddress},
		"a number":        {element: Element{CNIArgs: map[string]any{"ips": []any{1}}}, want: `cni-args.ips: "1": ` + wantAddress},
		"an object":       {element: Element{CNIArgs: map[string]any{"ips": map[string]any{}}}, want: `cni-args.ips: "map[]": want a text, or a list of texts`},
		"no MAC":          {args: map[string]string{"mac": "02::"}, want: `CNI argument mac: "02::": want a hardware address, as in 02:00:00:00:00:01`},
		"empty says none": {element: Element{CNIArgs: map[string]any{"ips": "", "mac": nil}}, want: "[] []"},
	} {
		c, err := Choose(test.element, test.args)
		var addresses []string
		for _, a := range c.Addresses {
			addresses = append(addresses, fmt.Sprintf("%s/%d", a.Addr(), a.Bits()))
		}
		got := fmt.Sprint(addresses, " ", c.Hardware)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestHostPorts(t *testing.T) {
	e := Element{Ports: []string{"http"}, PortMappings: []PortMapping{{HostPort: allocation.PortRange{First: 90, Last: 90}}, {HostPort: allocation.PortRange{First: 80, Last: 80}, ContainerPort: 8080}}}
	if got := e.HostPorts(); !slices.Equal(got, []allocation.PortRange{{First: 90, Last: 90}, {First: 80, Last: 80}}) {
		t.Errorf("host ports %v, want those that the element chooses: 90 and 80", got)
	}
}

func TestTypes(t *testing.T) {
	for input, want := range map[string]string{
		`[{"name": 1}]`:                                        `networks[0].name: is a JSON number, want string`,
		`[{"name": "a", "ips": "x"}]`:                          `networks[0].ips: is a JSON string, want array`,
		`[{"name": "a", "bandwidth": []}]`:                     `networks[0].bandwidth: is a JSON array, want object`,
		`[{"name": "a", "cni-args": "x"}]`:                     `networks[0].cni-args: is a JSON string, want object`,
		`[{"name": "a", "bandwidth": {"ingressRate": "10M"}}]`: `networks[0].bandwidth.ingressRate: is a JSON string, want number`,
		`[{"name": "a", "bandwidth": {"ingressRate": -1}}]`:    `networks[0].bandwidth.ingressRate: is a JSON number -1, want number`,
	} {
		if _, err := Parse(input); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", input, err, want)
		}
	}
}

func TestParseElementRefuses(t *testing.T) {
	for input, want := range map[string]string{
		`{"name": "other"}`:     `networks.backup.name: "other": want "backup", or no name`,
		`[]`:                    `networks.backup: is a JSON array, want object`,
		`{"mtu": 1}`:            `networks.backup.mtu: "1": want at least 1280, and at most the network's MTU`,
		`{"mtu": 1400} {}`:      `networks.backup: line 1, column 15: invalid JSON: invalid character '{' after top-level value`,
		`{"mtu": 1, "mtu": 1}`:  `networks.backup: "mtu": duplicate key`,
		`{"interface": "all"}`:  `networks.backup.interface: interface name "all" is reserved: the kernel has the settings of all interfaces under it`,
		`{"portMappings": [1]}`: `networks.backup.portMappings: is a JSON number, want object`,
	} {
		if _, err := ParseElement("backup", input); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", input, err, want)
		}
	}
	if _, err := ParseElement("../a", ""); err == nil || !strings.HasPrefix(err.Error(), `networks.../a.name: "../a": want letters`) {
		t.Errorf("a path: %v", err)
	}
}

func TestValidateInterface(t *testing.T) {
	for name, want := range map[string]string{
		"":                 "interface name is empty",
		"sixteen-letters-": `interface name "sixteen-letters-" has 16 bytes, want at most 15`,
		"a b":              `interface name "a b": want letters, digits, '_', '.' and '-', beginning with a letter, a digit or '_'`,
		"default":          `interface name "default" is reserved: the kernel has the settings of all interfaces under it`,
	} {
		if err := validateInterface(name); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	for _, name := range []string{"eth0", "_", "0", "a.b-c_d", "fifteen-letters"} {
		if err := validateInterface(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAssignRefuses(t *testing.T) {
	many := slices.Repeat([]Element{{Name: "a"}}, maxNetworks)
	for name, test := range map[string]struct {
		primary   *Element
		job, host []Element
		want      string
	}{
		"too many":        {&Element{Name: "web"}, many, nil, "networks: the allocation would have 65 networks, want at most 64"},
		"invalid primary": {&Element{Name: "web", MTU: 1}, nil, nil, `primary.mtu: "1": want at least 1280, and at most the network's MTU`},
		"invalid default": {nil, nil, []Element{{}}, "defaults[0]: the network's name is missing"},
	} {
		if _, err := Assign(test.primary, test.job, test.host); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

func TestBindErrors(t *testing.T) {
	n := network(t, `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge"}]}`)
	duplicate := []portmap.Port{{Label: "x", HostPort: 80}, {Label: "y", HostPort: 80}}
	for name, test := range map[string]struct {
		element Element
		ports   []portmap.Port
		want    string
	}{
		"capability":     {Element{MAC: "02:00:00:00:00:01"}, nil, `network "a": mac requested, but no plugin declares the capability "mac" (declared: none)`},
		"MTU":            {Element{MTU: 1400}, nil, `network "a": no plugin has the key "mtu": omit the MTU, or add the key to the network`},
		"duplicate port": {Element{}, duplicate, "host port 80/tcp is mapped twice: to 80 from all addresses and to 80 from all addresses"},
		"invalid port":   {Element{PortMappings: []PortMapping{{}}}, nil, `port "0": host port "0": want 1 to 65535`},
	} {
		if _, err := Bind(test.element, n, test.ports, cniconf.Edit{}); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}
