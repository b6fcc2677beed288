// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"fmt"
	"math/big"
	"net/netip"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

func prefixes(texts ...string) []netip.Prefix {
	list := []netip.Prefix{}
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// small is a host with everything that a map can have.
func small() *Map {
	web := Attachment{Network: "web", Interface: "eth0", Primary: true, Phase: state.Attached, Addresses: prefixes("10.88.0.2/16"), MAC: "02:00:00:00:00:01",
		Ports: []hook.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}}
	storage := Attachment{Network: "storage", Interface: "net1", Phase: state.Attached, Addresses: prefixes("10.89.0.2/16", "fd00:db8:1:2::101/64"), Drift: []string{"interface is down"}}
	other := web
	other.Addresses, other.Ports = prefixes("10.88.0.3/16"), nil
	vlan := Attachment{Network: "vlan", Interface: "data0", Phase: state.Pending, Task: "vlan-net", Addresses: prefixes("10.91.0.7/16"), Error: "no fabric"}
	return &Map{
		Host: "node-7",
		Networks: []Network{
			{Name: "web", File: "/opt/cni/config/10-web.conflist", Plugins: []string{"bridge", "firewall", "portmap"}, Attachments: 2,
				Devices: []Device{{Plugin: "bridge", Name: "web0", Bridge: true, State: Up, MTU: 1500, Addresses: prefixes("10.88.0.1/16")}},
				Pools:   []Pool{{Plugin: "host-local", Family: "ipv4", Subnets: prefixes("10.88.0.0/16"), Used: 2, Total: big.NewInt(65533)}}},
			{Name: "storage", File: "/opt/cni/config/20-storage.conflist", Plugins: []string{"bridge"}, Attachments: 1,
				Devices: []Device{{Plugin: "bridge", Name: "storage0", Bridge: true, State: Down, MTU: 1500, Drift: "storage0 is down"}},
				Pools: []Pool{
					{Plugin: "allocnet-ipam", Name: "san", Family: "ipv4", Subnets: prefixes("10.89.0.0/16"), Blocks: 1, Used: 61, Total: big.NewInt(64)},
					{Plugin: "allocnet-ipam", Name: "san", Family: "ipv6", Subnets: prefixes("fd00:db8:1:2::/64"), Blocks: 2, Used: 1, Total: new(big.Int).Lsh(big.NewInt(1), 64)},
				}},
			{Name: "vlan", File: "/opt/cni/config/30-vlan.conflist", Plugins: []string{"macvlan"}, Attachments: 1, Devices: []Device{{Plugin: "macvlan", State: Unknown}}},
			{Name: "backup", File: "/opt/cni/config/50-backup.conflist", Plugins: []string{"bridge"}, Devices: []Device{{Plugin: "bridge", Name: "backup0", Bridge: true, State: Missing}}},
		},
		Allocations: []Allocation{
			{ID: "5c2e9a0e-7a3c-4f5e-8a8e-0d4f9c1b2a33", Identity: policy.Identity{Namespace: "prod", Job: "api", Group: "web"}, Netns: "/run/netns/a", Attachments: []Attachment{web, storage}},
			{ID: "web-1", Netns: "/run/netns/web-1", Attachments: []Attachment{other, vlan}, Drift: []string{"interface lo is down: to set it up: nsenter --net=/run/netns/web-1 ip link set lo up"}},
		},
		Problems: []string{"not usable: /opt/cni/config/99-broken.conf:1:1: unexpected end of JSON input"},
	}
}

// many is a host with so many allocations on so many networks.
func many(allocations, networks int) *Map {
	m := &Map{Host: "node-7"}
	for i := range networks {
		m.Networks = append(m.Networks, Network{Name: fmt.Sprintf("network-%02d", i), File: "x", Plugins: []string{"bridge"},
			Devices: []Device{{Plugin: "bridge", Name: fmt.Sprintf("br%d", i), Bridge: true, State: Up, MTU: 1500}},
			Pools:   []Pool{{Plugin: "host-local", Family: "ipv4", Subnets: prefixes(fmt.Sprintf("10.%d.0.0/16", i)), Used: allocations, Total: big.NewInt(65533)}}})
	}
	for i := range allocations {
		a := Allocation{ID: fmt.Sprintf("%08x-7a3c-4f5e-8a8e-0d4f9c1b2a33", i*7919), Identity: policy.Identity{Job: fmt.Sprintf("job-%d", i%7), Group: "main"}}
		for k := range min(3, networks) {
			n := (i + k*k) % networks
			m.Networks[n].Attachments++
			a.Attachments = append(a.Attachments, Attachment{Network: m.Networks[n].Name, Interface: []string{"eth0", "net1", "data0"}[k], Phase: state.Attached,
				Addresses: prefixes(fmt.Sprintf("10.%d.%d.%d/16", n, i/250, i%250+2))})
		}
		m.Allocations = append(m.Allocations, a)
	}
	return m
}

// long has names and addresses of the greatest length.
func long() *Map {
	m := small()
	m.Host = "a-host-with-a-name-that-is-longer-than-a-terminal-would-show-in-one-line.example.org"
	a := &m.Allocations[1]
	a.ID = "an-allocation-with-a-name-that-is-as-long-as-a-container-id-may-be-and-so-does-not-fit-into-a-line-of-a-terminal-0123456789"
	a.Identity = policy.Identity{Namespace: "team-of-the-department-of-long-names", Job: "ein-Auftrag-mit-einem-langen-Namen-für-日本語-テスト", Group: "group"}
	n := &a.Attachments[0]
	n.Interface = "interface-names"
	n.Addresses = prefixes("10.88.255.253/16", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff/128")
	n.Ports = []hook.PortMapping{{HostPort: 28080, ContainerPort: 28080, Protocol: "sctp", HostIP: "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff"}}
	m.Networks[1].Name = "a-network-with-a-name-that-is-too-long"
	m.Allocations[0].Attachments[1].Network = m.Networks[1].Name
	return m
}
