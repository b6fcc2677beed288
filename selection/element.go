// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/strictjson"
)

// maxNetworks is the number of networks that one allocation may have.
const maxNetworks = 64

// MinMTU is the smallest MTU that a selection may have. On a smaller one the
// kernel drops IPv6 and its addresses (RFC 8200, section 5).
const MinMTU = 1280

// Element selects one network for an allocation.
type Element struct {
	// Name is the name of the network. Required.
	Name string `json:"name"`
	// Interface is the interface name in the namespace. Empty: assigned by Assign.
	Interface string `json:"interface,omitempty"`
	// IPs are the requested addresses, with or without a prefix length.
	IPs []string `json:"ips,omitempty"`
	// MAC is an Ethernet address. Empty: the kernel's choice.
	MAC string `json:"mac,omitempty"`
	// MTU is MinMTU to the network's. 0: the network's.
	MTU int `json:"mtu,omitempty"`
	// Bandwidth limits traffic. Nil: the network's limits.
	Bandwidth *Bandwidth `json:"bandwidth,omitempty"`
	// PortMappings are mapped to this attachment in addition to Ports.
	PortMappings []PortMapping `json:"portMappings,omitempty"`
	// DefaultRoute sets the default route to this attachment: through these
	// gateways, at most one for each address family, or through the network's own
	// when it is empty. Nil: no request.
	DefaultRoute []string `json:"default-route,omitzero"`
	// CNIArgs are merged into "args"."cni" of the network's plugins.
	CNIArgs map[string]any `json:"cni-args,omitempty"`
	// InfinibandGUID is an EUI-64. Empty: the fabric's choice.
	InfinibandGUID string `json:"infiniband-guid,omitempty"`
	// Ports are labels of the allocation's ports that are mapped to this
	// attachment. Nil: none, or for the primary all that no other element has.
	Ports []string `json:"ports,omitempty"`
}

// Addresses returns IPs without their prefix lengths.
func (e Element) Addresses() ([]netip.Addr, error) {
	var all []netip.Addr
	for _, text := range e.IPs {
		address, err := parseIP(text)
		if err != nil {
			return nil, err
		}
		all = append(all, address)
	}
	return all, nil
}

// HostPorts are the host ports that the element chooses.
func (e Element) HostPorts() []int {
	var ports []int
	for _, m := range e.PortMappings {
		ports = append(ports, m.HostPort)
	}
	return ports
}

func (e Element) hasArg(key string) bool {
	for name := range e.CNIArgs {
		if strings.EqualFold(name, key) {
			return true
		}
	}
	return false
}

// ambiguousKey returns a key that a value, or one in it, has in two spellings. Plugins ignore the case of keys,
// and read one of them.
func ambiguousKey(value any) string {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if key := ambiguousKey(element); key != "" {
				return key
			}
		}
	case map[string]any:
		seen := map[string]bool{}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			folded := strictjson.Fold(key)
			if seen[folded] {
				return key
			}
			seen[folded] = true
			if inner := ambiguousKey(value[key]); inner != "" {
				return inner
			}
		}
	}
	return ""
}

// PortMapping is an element of the portMappings capability.
type PortMapping struct {
	HostPort int `json:"hostPort"`
	// ContainerPort is the port in the namespace. 0: the same as HostPort.
	ContainerPort int `json:"containerPort,omitempty"`
	// Protocol is "tcp", "udp" or "sctp". Empty: tcp.
	Protocol string `json:"protocol,omitempty"`
	// HostIP is the address on the host. Empty: all.
	HostIP string `json:"hostIP,omitempty"`
}

// Error is a selection that is refused.
type Error struct {
	// Position is the path of the value, as in "networks[2].ips[0]".
	Position string
	// Value is the invalid value. Empty: the reason has it.
	Value string
	// Reason describes a valid value.
	Reason string
}

func (e *Error) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", e.Position, e.Reason)
	}
	return fmt.Sprintf("%s: %q: %s", e.Position, e.Value, e.Reason)
}

// Kind is that of package errdefs.
func (*Error) Kind() errdefs.Kind { return errdefs.Refused }
