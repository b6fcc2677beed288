// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func span(first, last string) Span {
	return Span{netip.MustParseAddr(first), netip.MustParseAddr(last)}
}

// TestDraft: a few words become the configuration that a person would write.
func TestDraft(t *testing.T) {
	const ports = `{"type": "firewall"}, {"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}`
	for name, test := range map[string]struct {
		draft Draft
		want  string // without cniVersion and name
	}{
		"bridge": {
			Draft{Type: "bridge", Bridge: "web0", Subnets: prefixes("10.42.0.0/24")},
			`"allocnet": {"ipv6": "off"}, "plugins": [{"type": "bridge", "bridge": "web0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "capabilities": {"ips": true, "mac": true},
				"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.42.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}, ` + ports + `]`,
		},
		"internal bridge of both families": {
			Draft{Type: "bridge", Bridge: "web0", Internal: true, MTU: 9000, Isolation: "network", Subnets: prefixes("fd00::/64", "10.42.0.0/24"), Ranges: []Span{span("10.42.0.10", "10.42.0.20")}},
			`"allocnet": {"isolation": "network"}, "plugins": [{"type": "bridge", "bridge": "web0", "mtu": 9000, "capabilities": {"ips": true, "mac": true},
				"ipam": {"type": "host-local", "ranges": [[{"subnet": "fd00::/64"}], [{"subnet": "10.42.0.0/24", "rangeStart": "10.42.0.10", "rangeEnd": "10.42.0.20"}]]}}]`,
		},
		"ptp": {
			Draft{Type: "ptp", Subnets: prefixes("10.42.0.0/24", "fd00::/64")},
			`"plugins": [{"type": "ptp", "ipMasq": true, "capabilities": {"ips": true},
				"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.42.0.0/24"}], [{"subnet": "fd00::/64"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}, ` + ports + `]`,
		},
		"macvlan": {
			Draft{Type: "macvlan", Master: "eth0", Subnets: prefixes("10.42.0.0/24")},
			`"allocnet": {"ipv6": "off"}, "plugins": [{"type": "macvlan", "master": "eth0", "mode": "bridge", "capabilities": {"ips": true, "mac": true},
				"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.42.0.0/24"}]]}}]`,
		},
		"ipvlan with a gateway": {
			Draft{Type: "ipvlan", Master: "eth0", Subnets: prefixes("10.42.0.0/24"), Gateways: []netip.Addr{netip.MustParseAddr("10.42.0.254")}},
			`"allocnet": {"ipv6": "off"}, "plugins": [{"type": "ipvlan", "master": "eth0", "capabilities": {"ips": true},
				"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.42.0.0/24", "gateway": "10.42.0.254"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]`,
		},
		"vlan": {
			Draft{Type: "vlan", Master: "uplink", VLAN: 42, Subnets: prefixes("10.42.0.0/24")},
			`"allocnet": {"ipv6": "off"}, "plugins": [{"type": "vlan", "master": "uplink", "vlanId": 42, "capabilities": {"ips": true},
				"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.42.0.0/24"}]]}}]`,
		},
		"host-device without addresses": {Draft{Type: "host-device", Device: "eth1"}, `"plugins": [{"type": "host-device", "device": "eth1"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			test.draft.Name = "storage"
			data, err := test.draft.ConfList()
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(`{"cniVersion": "1.0.0", "name": "storage", `+test.want+`}`), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %s", data)
			}
			if n, err := ParseNetwork("f", data); err != nil || n.CheckAddresses() != nil {
				t.Errorf("the network is not valid: %v", err)
			}
		})
	}
}

// TestDraftRefused: what cannot work is refused, and the error has the value.
func TestDraftRefused(t *testing.T) {
	v4 := prefixes("10.42.0.0/24")
	gateways := func(texts ...string) (all []netip.Addr) {
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all
	}
	for want, d := range map[string]Draft{
		`type "overlay"`:                            {Type: "overlay"},
		`vlan 42: a network of type bridge`:         {Type: "bridge", Bridge: "b0", VLAN: 42, Subnets: v4},
		`vlan 4095`:                                 {Type: "vlan", Master: "m", VLAN: 4095, Subnets: v4},
		`vlan 0`:                                    {Type: "vlan", Master: "m", Subnets: v4},
		`mtu 9000: host-device`:                     {Type: "host-device", Device: "d", MTU: 9000},
		`mtu 100`:                                   {Type: "ptp", MTU: 100, Subnets: v4},
		`type bridge: want a bridge`:                {Type: "bridge", Subnets: v4},
		`type macvlan: want a master`:               {Type: "macvlan", Subnets: v4},
		`master "m": a network of type ptp`:         {Type: "ptp", Master: "m", Subnets: v4},
		`device "d": a network of type vlan`:        {Type: "vlan", Master: "m", VLAN: 1, Device: "d", Subnets: v4},
		`bridge "far-too-long-name"`:                {Type: "bridge", Bridge: "far-too-long-name", Subnets: v4},
		`type ptp: want a subnet`:                   {Type: "ptp"},
		`subnet 10.42.0.7/24`:                       {Type: "ptp", Subnets: prefixes("10.42.0.7/24")},
		`subnet 10.42.0.0/31`:                       {Type: "ptp", Subnets: prefixes("10.42.0.0/31")},
		`subnet 10.43.0.0/24: want one of`:          {Type: "ptp", Subnets: prefixes("10.42.0.0/24", "10.43.0.0/24")},
		`subnet ::ffff:10.42.0.0/120`:               {Type: "ptp", Subnets: prefixes("::ffff:10.42.0.0/120")},
		`subnet fe80::/64`:                          {Type: "ptp", Subnets: prefixes("fe80::/64")},
		`range 10.43.0.1-10.43.0.2`:                 {Type: "ptp", Subnets: v4, Ranges: []Span{span("10.43.0.1", "10.43.0.2")}},
		`range 10.42.0.9-10.42.1.2`:                 {Type: "ptp", Subnets: v4, Ranges: []Span{span("10.42.0.9", "10.42.1.2")}},
		`range 10.42.0.9-10.42.0.2`:                 {Type: "ptp", Subnets: v4, Ranges: []Span{span("10.42.0.9", "10.42.0.2")}},
		`range 10.42.0.0-10.42.0.2`:                 {Type: "ptp", Subnets: v4, Ranges: []Span{span("10.42.0.0", "10.42.0.2")}},
		`range 10.42.0.1-10.42.0.1: its only`:       {Type: "ptp", Subnets: v4, Ranges: []Span{span("10.42.0.1", "10.42.0.1")}},
		`range 10.42.0.9-10.42.0.9: its only`:       {Type: "ptp", Subnets: v4, Ranges: []Span{span("10.42.0.9", "10.42.0.9")}, Gateways: []netip.Addr{netip.MustParseAddr("10.42.0.9")}},
		`range 10.42.0.9-10.42.0.255`:               {Type: "ptp", Subnets: v4, Ranges: []Span{span("10.42.0.9", "10.42.0.255")}},
		`range 10.42.0.9-10.42.0.9: want one range`: {Type: "ptp", Subnets: v4, Ranges: []Span{span("10.42.0.2", "10.42.0.3"), span("10.42.0.9", "10.42.0.9")}},
		`gateway 10.43.0.1`:                         {Type: "ptp", Subnets: v4, Gateways: gateways("10.43.0.1")},
		`gateway 10.42.0.255`:                       {Type: "ptp", Subnets: v4, Gateways: gateways("10.42.0.255")},
		`gateway 10.42.0.2: want one gateway`:       {Type: "ptp", Subnets: v4, Gateways: gateways("10.42.0.1", "10.42.0.2")},
		`gateway and internal`:                      {Type: "ptp", Subnets: v4, Gateways: gateways("10.42.0.1"), Internal: true},
		`gateway 10.42.0.1: want an address of a subnet, of which there is none`: {Type: "host-device", Device: "d", Gateways: gateways("10.42.0.1")},
	} {
		d.Name = "storage"
		if _, err := d.ConfList(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", d, err, want)
		}
	}
	if _, err := (Draft{Name: "Storage", Type: "ptp", Subnets: v4}).ConfList(); err == nil || !strings.Contains(err.Error(), `name "Storage"`) {
		t.Errorf("capital letters in the name: %v", err)
	}
}
