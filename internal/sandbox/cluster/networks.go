// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import "fmt"

// Networks of the clients, on the wire that they share.
const (
	// Local has addresses that are unique on each host only.
	Local = "local"
	// Flat has addresses that are unique in the cluster.
	Flat = "flat"
)

// Subnets of the networks.
const (
	LocalSubnet = "10.90.0.0/28"
	FlatSubnet  = "10.91.0.0/24"
)

// ipam returns the address management of each network on a machine.
func (m *Machine) ipam() map[string]string {
	host := int(m.Address.As4()[3]-10) * 60
	return map[string]string{
		Local: `{"type": "host-local", "ranges": [[{"subnet": "` + LocalSubnet + `"}]]}`,
		Flat: fmt.Sprintf(`{"type": "host-local", "ranges": [[{"subnet": "`+FlatSubnet+`",
			"rangeStart": "10.91.0.%d", "rangeEnd": "10.91.0.%d"}]]}`, host, host+59),
	}
}

// writeNetworks writes the networks, and for each the CNI configuration of jobs. The last
// client executes the reference plugins and allocnet-ipam, the others do their work in the
// process of allocnet-cni.
func (m *Machine) writeNetworks() error {
	executor := "auto"
	if m.Name == "c3" {
		executor = "plugins"
	}
	for name, ipam := range m.ipam() {
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
