// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// subnetsOfHost reports networks whose attachments would take the host a subnet that one of its links has.
func subnetsOfHost(r *Report, networks []network, links func() ([]netns.Interface, error)) {
	own, err := links()
	if err != nil {
		r.addUnexamined("host", "its addresses are not compared with those of networks: "+err.Error(), "run allocnet doctor again")
		return
	}
	for _, n := range networks {
		for _, conflict := range n.SubnetConflicts(own) {
			fix := "choose another subnet in " + n.Path
			if conflict.Exists {
				fix += ", and remove the address: ip address del " + conflict.Address.String() + " dev " + conflict.Bridge
			}
			r.addError(n.Path, "network \""+n.Name+"\": "+conflict.String(), fix)
		}
	}
}

// portsElsewhere reports ports that are published on an address that the host does not have: its rules match no connection. A
// floating address may come later, so this is no error.
func portsElsewhere(r *Report, record state.Record, isOwn func(netip.Addr) bool) {
	for _, a := range record.Attachments {
		var mappings []allocation.PortMapping
		data, err := json.Marshal(a.CapabilityArgs["portMappings"])
		if err != nil || json.Unmarshal(data, &mappings) != nil {
			continue // the plugin reports it
		}
		for _, m := range mappings {
			address, err := netip.ParseAddr(m.HostIP)
			if address = address.Unmap(); err != nil || address.IsUnspecified() || isOwn(address) {
				continue
			}
			r.addWarning(record.Allocation.ID, fmt.Sprintf("port %s/%s of %s is published on %s, which is no address of this host: no connection gets there", m.HostPorts(), m.Protocol, a.Interface, address),
				"give the host the address, or publish the port on another one")
		}
	}
}
