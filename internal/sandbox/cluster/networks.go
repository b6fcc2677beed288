// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

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
func (m *Machine) writeNetworks() error {
	executor := "auto"
	if m.Name == "c3" {
		executor = "plugins"
	}
	for name, ipam := range addresses {
		text := `{"cniVersion": "1.0.0", "name": "` + name + `", "plugins": [
	{"type": "macvlan", "master": "` + wire + `", "mode": "bridge", "ipam": ` + ipam + `}]}`
		if err := m.Write("/opt/cni/config/50-"+name+".conflist", text); err != nil {
			return err
		}
		if _, err := m.Run("allocnet", "conf", "generate", name, "--name", "job-"+name, "--alloc-dir", "none", "--executor", executor); err != nil {
			return err
		}
	}
	return nil
}
