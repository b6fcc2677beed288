// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
)

// subnetsOfHost reports networks whose attachments would take the host a subnet that one of its links has.
func subnetsOfHost(r *Report, networks []network, links func() ([]netns.Interface, error)) {
	own, err := links()
	if err != nil {
		r.addWarning("host", "its addresses are not compared with those of networks: "+err.Error(), "run allocnet doctor again")
		return
	}
	for _, n := range networks {
		for _, conflict := range hook.SubnetConflicts(n.Network, own) {
			fix := "choose another subnet in " + n.Path
			if conflict.Exists {
				fix += ", and remove the address: ip address del " + conflict.Address.String() + " dev " + conflict.Bridge
			}
			r.addError(n.Path, "network \""+n.Name+"\": "+conflict.String(), fix)
		}
	}
}
