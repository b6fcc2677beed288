// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/go-cni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/portmap"
)

// Capabilities of the CNI conventions that elements use.
const (
	capIPs          = "ips"
	capMAC          = "mac"
	capBandwidth    = "bandwidth"
	capGUID         = "infinibandGUID"
	capPortMappings = "portMappings"
)

// Binding is what libcni needs to attach an element.
type Binding struct {
	// ConfList is self-contained: it has the plugins, MTU and cni-args.
	ConfList []byte
	// CapabilityArgs are JSON values by capability.
	CapabilityArgs map[string]any
	// Mappings are those in CapabilityArgs.
	Mappings []cni.PortMapping
	// Chosen are those of Mappings whose host port the element chooses.
	Chosen []cni.PortMapping
}

// UnsupportedError is a field of an element that needs a capability which none of the
// network's plugins declares.
type UnsupportedError struct {
	Network    string
	Field      string
	Capability string
	Declared   []string
}

func (e *UnsupportedError) Error() string {
	declared := "none"
	if len(e.Declared) > 0 {
		declared = strings.Join(e.Declared, ", ")
	}
	return fmt.Sprintf("network %q: %s requested, but no plugin declares the capability %q (declared: %s)", e.Network, e.Field, e.Capability, declared)
}

// Kind is that of package errdefs.
func (*UnsupportedError) Kind() errdefs.Kind { return errdefs.Refused }

// Bind combines the element with the capabilities that the network declares. The
// ports are those of the allocation that are mapped to this attachment. The errors are
// *UnsupportedError, *cniconf.NoMTUError and those of package portmap.
func (e Element) Bind(n *cniconf.Network, ports []portmap.Port, o portmap.Options, marker json.RawMessage) (Binding, error) {
	mappings, err := e.mappings(ports, o)
	if err != nil {
		return Binding{}, err
	}
	chosen, err := e.mappings(nil, o)
	if err != nil {
		return Binding{}, err
	}
	var limits Bandwidth
	if e.Bandwidth != nil {
		limits = e.Bandwidth.withBursts()
	}
	b := Binding{CapabilityArgs: map[string]any{}, Mappings: mappings, Chosen: chosen}
	declared := n.Capabilities()
	for _, request := range []struct {
		present           bool
		field, capability string
		value             any
	}{
		{len(e.IPs) > 0, "ips", capIPs, e.IPs},
		{e.MAC != "", "mac", capMAC, e.MAC},
		{e.Bandwidth != nil, "bandwidth", capBandwidth, &limits},
		{e.InfinibandGUID != "", "infiniband-guid", capGUID, e.InfinibandGUID},
		{len(mappings) > 0, "ports", capPortMappings, portmap.Capability(mappings)},
	} {
		if !request.present {
			continue
		}
		if !slices.Contains(declared, request.capability) {
			return Binding{}, &UnsupportedError{n.Name, request.field, request.capability, declared}
		}
		b.CapabilityArgs[request.capability] = request.value
	}
	b.ConfList, err = n.Render(cniconf.Edit{MTU: e.MTU, CNIArgs: e.CNIArgs, Marker: marker})
	return b, err
}

func (e Element) mappings(ports []portmap.Port, o portmap.Options) ([]cni.PortMapping, error) {
	all := slices.Clone(ports)
	for _, m := range e.PortMappings {
		all = append(all, m.port())
	}
	return portmap.Mappings(all, o)
}
