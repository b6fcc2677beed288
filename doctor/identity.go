// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"encoding/json"
	"fmt"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/nomad"
)

// forgeable reports conflists of allocnet-cni that accept the identity which a job of
// this version of Nomad can write.
func (d *Doctor) forgeable(r *Report, c *cniconf.Catalog) {
	if !d.NomadVersion.JobsForgeIdentity() {
		return
	}
	for _, n := range c.Networks {
		if acceptsIdentity(n) {
			r.addError(n.Path, fmt.Sprintf("in Nomad %s a job can set the namespace and the job that rules see: with another namespace it gets networks that are denied to its own", d.NomadVersion),
				fmt.Sprintf(`set "identity": "unknown" in the plugin configuration of %s, for example with allocnet conf generate, or upgrade Nomad to %s or later`, ownPlugin, nomad.Identity))
		}
	}
}

// acceptsIdentity is whether a conflist has allocnet-cni with the identity of Nomad, the
// default.
func acceptsIdentity(n *cniconf.Network) bool {
	for _, plugin := range n.List.Plugins {
		var conf struct{ Type, Identity string }
		if json.Unmarshal(plugin.Bytes, &conf) == nil && conf.Type == ownPlugin && conf.Identity != "unknown" {
			return true
		}
	}
	return false
}
