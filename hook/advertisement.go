// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// setsAcceptRA tells whether a plugin of the network sets accept_ra, as the tuning
// plugin does.
func setsAcceptRA(list *libcni.NetworkConfigList) bool {
	return slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool {
		var conf struct {
			Sysctl map[string]string `json:"sysctl"`
		}
		if json.Unmarshal(p.Bytes, &conf) != nil { // the plugin will say what is wrong
			return false
		}
		for key := range conf.Sysctl {
			if strings.HasSuffix(key, "accept_ra") {
				return true
			}
		}
		return false
	})
}

// presetAcceptRA sets what interfaces do with router advertisements that arrive before
// setAcceptRA. In a namespace of another runtime, interfaces that others make count on
// the setting as it is.
func (o *operation) presetAcceptRA(ns kernel.Namespace, p *plan) error {
	if !o.record.Allocation.NetnsOwned {
		return nil
	}
	// Only an interface that accepts them when it is set up asks for one.
	accept := slices.ContainsFunc(p.added, func(a planned) bool { return a.attachment.AcceptRA != nil && *a.attachment.AcceptRA })
	return ns.SetAcceptRA(netns.NewInterfaces, accept)
}

// setAcceptRA has an attached interface accept router advertisements or ignore them. They would
// give it addresses and a default route beside those of its network's plugins.
func (o *operation) setAcceptRA(ns kernel.Namespace, a *state.Attachment) error {
	if a.AcceptRA == nil {
		return nil
	}
	if err := ns.SetAcceptRA(a.Interface, *a.AcceptRA); err != nil {
		return o.failure("attach", *a, a.Attempts, err)
	}
	return nil
}
