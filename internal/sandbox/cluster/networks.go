// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import "maps"

// Networks of the clients, on the wire that they share.
const (
	// Local has addresses that are unique on each host only.
	Local = "local"
	// Flat has addresses that are unique in the cluster.
	Flat = "flat"
	// Kept has also addresses that stay with the index of an allocation.
	Kept = "kept"
)

// Subnets of the networks.
const (
	LocalSubnet = "10.90.0.0/28"
	FlatSubnet  = "10.91.0.0/23"
	KeptSubnet  = "10.92.0.0/24"
)

// addresses are the networks that each cluster has.
var addresses = map[string]string{
	Local: `{"type": "host-local", "ranges": [[{"subnet": "` + LocalSubnet + `"}]]}`,
	Flat: `{"type": "allocnet-ipam", "pool": "flat", "ranges": [{"subnet": "` + FlatSubnet + `"}],
		"blockSize": {"4": 28}, "cooldown": "5s"}`,
	Kept: `{"type": "allocnet-ipam", "pool": "kept", "ranges": [{"subnet": "` + KeptSubnet + `"}],
		"reserved": ["10.92.0.0/28"], "blockSize": {"4": 28}, "cooldown": "5s", "sticky": true}`,
}

// writeNetworks writes the networks, and for each the CNI configuration of jobs. The last
// client executes the reference plugins and allocnet-ipam, the others do their work in the
// process of allocnet-cni.
func (c *Cluster) writeNetworks(m *Machine) error {
	networks, lists := map[string]string{}, map[string]string{}
	maps.Copy(networks, c.layout.Networks)
	maps.Copy(lists, c.layout.Conflists)
	for name, ipam := range addresses {
		networks[name] = `{"type": "macvlan", "master": "` + wire + `", "mode": "bridge", "ipam": ` + ipam + `}`
	}
	for name, plugins := range networks {
		lists[name] = `{"cniVersion": "1.0.0", "name": "` + name + `", "plugins": [` + plugins + `]}`
	}
	for name, text := range lists {
		if err := m.Write("/opt/cni/config/50-"+name+".conflist", text); err != nil {
			return err
		}
	}
	for name := range lists {
		if err := c.generate(m, name); err != nil {
			return err
		}
	}
	return nil
}

// generate writes the CNI configuration of jobs for a network. What jobs select, and the index of an
// allocation, is read from Nomad by the agent. Jobs on Flat do without it: the plugin alone executes
// their calls, and on the second client it does if the agent does not.
func (c *Cluster) generate(m *Machine, network string) error {
	name := "job-" + network
	words := []string{"allocnet", "conf", "generate", network, "--name", name, "--alloc-dir", "none"}
	if _, isWhole := c.layout.Conflists[network]; m == c.Clients[2] && !isWhole {
		words = append(words, "--executor", "plugins")
	}
	if network != Flat {
		words = append(words, "--job-networks")
	}
	if _, err := m.Run(words...); err != nil || network != Flat || m != c.Clients[1] {
		return err
	}
	path := "/opt/cni/config/00-" + name + ".conflist"
	_, err := m.Run("sh", "-ec", `sed -i 's/"type": "allocnet-cni",/&"agent": {"mode": "prefer"},/' `+path+"; grep -q prefer "+path)
	return err
}
