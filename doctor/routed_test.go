// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/forwarding"
)

// routedNetwork is a conflist with a pool; plugin and pool are further keys.
func routedNetwork(name, plugin, pool string) string {
	return `{"cniVersion": "1.1.0", "name": "` + name + `", "plugins": [{` + plugin + `, "ipam": {"type": "allocnet-ipam", ` + pool + `}}]}`
}

func TestRoutedPools(t *testing.T) {
	const (
		bridge = `"type": "bridge", "bridge": "b0", "isGateway": true, "mtu": 1450`
		vxlan  = `"pool": "p", "mode": "vxlan", "vxlan": {"id": 7}, "ranges": [{"subnet": "10.100.0.0/16"}]`
	)
	good := routedNetwork("a", bridge, vxlan)
	other := func(plugin, pool string) map[string]string {
		return map[string]string{"a.conflist": good, "b.conflist": routedNetwork("b", plugin, pool)}
	}
	devices := map[string]forwarding.Device{"p": {MTU: 1450}}
	isGuarded := func(pool string) (bool, error) {
		return pool != "open", map[string]error{"unlisted": errors.New("operation not permitted")}[pool]
	}
	ether := forwarding.Facts{Devices: devices, Underlay: forwarding.Interface{Name: "eth0", MTU: 1500}, IsGuarded: isGuarded}
	for name, test := range map[string]struct {
		networks  map[string]string
		addresses []string
		want      []string
	}{
		"unguarded": {map[string]string{"a.conflist": routedNetwork("a", bridge, strings.ReplaceAll(vxlan, `"p"`, `"open"`))}, nil, []string{
			`error DIR/a.conflist: nothing drops what allocations of this host send to UDP port 4789 of other hosts: they can send packets with any address into pool open => systemctl start allocnet; if it runs, allocnet cluster status says why`,
		}},
		"not known": {map[string]string{"a.conflist": routedNetwork("a", bridge, strings.ReplaceAll(vxlan, `"p"`, `"unlisted"`))}, nil, []string{
			`error DIR/a.conflist: it is not known (operation not permitted) whether anything drops what allocations of this host send to UDP port 4789 of other hosts: they can send packets with any address into pool unlisted => systemctl start allocnet; if it runs, allocnet cluster status says why`,
		}},
		"right":                  {map[string]string{"a.conflist": good}, []string{"b0 10.100.0.1/16", "veth1 10.100.0.1/32", "eth0 192.0.2.1/24", "eth0 fe80::1/64"}, nil},
		"two networks of a pool": {other(`"type": "ptp", "mtu": 1400`, vxlan), nil, nil},
		"no forwarding plugin": {map[string]string{"a.conflist": routedNetwork("a", `"type": "bridge", "mtu": 1400`, vxlan)}, nil, []string{
			`error DIR/a.conflist: network "a": plugin bridge has the pool p of the mode vxlan, and does not forward to other hosts: want "isGateway": true in DIR/a.conflist => edit DIR/a.conflist`,
		}},
		"no MTU": {map[string]string{"a.conflist": routedNetwork("a", `"type": "ptp"`, vxlan)}, nil, []string{
			`warning DIR/a.conflist: network "a" has the MTU 1500, and the VXLAN of pool p takes packets of 1450: larger ones have to be sent again => set "mtu": 1450 of the plugin ptp, on all hosts`,
		}},
		"MTU of the uplink":    {map[string]string{"a.conflist": strings.Replace(routedNetwork("a", `"type": "ptp"`, vxlan), `"plugins"`, `"allocnet": {"mtuFrom": "uplink"}, "plugins"`, 1)}, nil, nil},
		"no MTU without VXLAN": {map[string]string{"a.conflist": routedNetwork("a", `"type": "ptp"`, `"pool": "p", "mode": "routed", "ranges": [{"subnet": "10.100.0.0/16"}]`)}, nil, nil},
		"one VXLAN of two pools": {other(`"type": "ptp", "mtu": 1400`, `"pool": "q", "mode": "auto", "vxlan": {"id": 7}, "ranges": [{"subnet": "10.101.0.0/16"}]`), nil, []string{
			`error DIR/b.conflist: pool q has the VXLAN 7 on port 4789, as pool p of network "a" (DIR/a.conflist) => give one of the pools another "vxlan": {"id": NUMBER}, on all hosts`,
		}},
		"another port": {other(`"type": "ptp", "mtu": 1400`, `"pool": "q", "mode": "auto", "vxlan": {"id": 7, "port": 8472}, "ranges": [{"subnet": "10.101.0.0/16"}]`), nil, nil},
		"routed twice": {other(`"type": "ptp"`, `"pool": "q", "mode": "routed", "ranges": [{"subnet": "10.101.0.0/16"}]`), nil, nil},
		"two bridges": {other(`"type": "bridge", "bridge": "b1", "isGateway": true, "mtu": 1400`, vxlan), nil, []string{
			`error DIR/b.conflist: network "b" has pool p on the bridge b1, and network "a" (DIR/a.conflist) on b0: the host's route for the subnet is by one of them only => give one of the networks another pool, or remove it`,
		}},
		"a part of the subnet": {other(`"type": "macvlan", "master": "eth0"`, `"pool": "q", "ranges": [{"subnet": "10.100.0.0/24"}]`), nil, []string{
			`error DIR/b.conflist: subnet 10.100.0.0/24 of pool q overlaps 10.100.0.0/16 of pool p of network "a" (DIR/a.conflist), and packets to the one or the other are routed to other hosts => give one of the pools another subnet`,
		}},
		"addresses of the host": {map[string]string{"a.conflist": good}, []string{"eth0 10.100.3.4/24", "eth1 10.0.0.2/8"}, []string{
			`error DIR/a.conflist: subnet 10.100.0.0/16 of pool p overlaps 10.100.3.4/24 of the interface eth0 => give the pool another subnet`,
			`warning DIR/a.conflist: subnet 10.100.0.0/16 of pool p overlaps 10.0.0.2/8 of the interface eth1: other hosts with its addresses are not reached => give the pool another subnet, unless no other host has an address of it`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			networks := load(t, test.networks)
			facts := ether
			for _, text := range test.addresses {
				link, prefix, _ := strings.Cut(text, " ")
				facts.Addresses = append(facts.Addresses, forwarding.Address{Interface: link, Prefix: netip.MustParsePrefix(prefix)})
			}
			r := &Report{}
			routedPools(r, networks, &facts)
			r.sort()
			dir := strings.TrimSuffix(networks[0].Path, "/a.conflist")
			for i, want := range test.want {
				test.want[i] = strings.ReplaceAll(want, "DIR", dir)
			}
			requireFindings(t, r, test.want...)
		})
	}
}
