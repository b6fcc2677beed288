// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/portmap"
)

// Binding is what libcni needs to attach an element.
type Binding struct {
	// ConfList is self-contained: it has the plugins, MTU and cni-args.
	ConfList []byte
	// CapabilityArgs are JSON values by capability.
	CapabilityArgs map[string]any
	// Mappings are those in CapabilityArgs.
	Mappings []portmap.Mapping
	// Chosen are those of Mappings whose host port the element chooses.
	Chosen []portmap.Mapping
}

// Bind combines the element with the capabilities that the network declares. The
// ports are those of the allocation that are mapped to this attachment; the edit is what else the attachment changes.
func Bind(e Element, n *cniconf.Network, ports []portmap.Port, edit cniconf.Edit) (Binding, error) {
	mappings, err := portmap.Mappings(ports, e.PortMappings...)
	if err != nil {
		return Binding{}, err
	}
	chosen, err := portmap.Mappings(nil, e.PortMappings...)
	if err != nil {
		return Binding{}, err
	}
	var limits Bandwidth
	if e.Bandwidth != nil {
		limits = withBursts(*e.Bandwidth)
	}
	b := Binding{CapabilityArgs: map[string]any{}, Mappings: mappings, Chosen: chosen}
	declared := n.Capabilities()
	for _, request := range []struct {
		present           bool
		field, capability string
		value             any
	}{
		{len(e.IPs) > 0, "ips", "ips", e.IPs},
		{e.MAC != "", "mac", "mac", e.MAC},
		{e.Bandwidth != nil, "bandwidth", "bandwidth", &limits},
		{e.InfinibandGUID != "", "infiniband-guid", "infinibandGUID", e.InfinibandGUID},
		{len(mappings) > 0, "ports", "portMappings", portmap.Capability(mappings)},
	} {
		if !request.present {
			continue
		}
		if !slices.Contains(declared, request.capability) {
			return Binding{}, errdefs.As(errdefs.Refused, fmt.Errorf("network %q: %s requested, but no plugin declares the capability %q (declared: %s)",
				n.Name, request.field, request.capability, cmp.Or(strings.Join(declared, ", "), "none")))
		}
		b.CapabilityArgs[request.capability] = request.value
	}
	edit.MTU, edit.CNIArgs = e.MTU, e.CNIArgs
	b.ConfList, err = n.Render(edit)
	return b, err
}
