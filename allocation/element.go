// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package allocation

// Element selects one network for an allocation (Multi-Network Specification, "Network Attachment
// Selection Annotation"). Package selection reads and checks it.
type Element struct {
	// Name is the name of the network. Required.
	Name string `json:"name"`
	// Interface is the interface name in the namespace. Empty: eth0 for the primary,
	// else net1, net2 and so on.
	Interface string `json:"interface,omitempty"`
	// IPs are the requested addresses, with or without a prefix length.
	IPs []string `json:"ips,omitempty"`
	// MAC is an Ethernet address. Empty: the kernel's choice.
	MAC string `json:"mac,omitempty"`
	// MTU is 1280 to the network's. 0: the network's.
	MTU int `json:"mtu,omitempty"`
	// Bandwidth limits traffic. Nil: the network's limits.
	Bandwidth *Bandwidth `json:"bandwidth,omitempty"`
	// PortMappings are mapped to this attachment in addition to Ports.
	PortMappings []ChosenPort `json:"portMappings,omitempty"`
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

// HostPorts are the host ports that the element chooses.
func (e Element) HostPorts() []PortRange {
	var ports []PortRange
	for _, m := range e.PortMappings {
		ports = append(ports, m.HostPort)
	}
	return ports
}

// Bandwidth is the bandwidth capability of the CNI conventions: rates in bits
// per second, bursts in bits. Zero: no limit, or with a rate a burst of a tenth of a second.
type Bandwidth struct {
	IngressRate  uint64 `json:"ingressRate,omitempty"`
	IngressBurst uint64 `json:"ingressBurst,omitempty"`
	EgressRate   uint64 `json:"egressRate,omitempty"`
	EgressBurst  uint64 `json:"egressBurst,omitempty"`
}

// ChosenPort is an element of the portMappings capability.
type ChosenPort struct {
	// HostPort is a port of the host, or a range of them.
	HostPort PortRange `json:"hostPort"`
	// ContainerPort is the port in the namespace. 0: the same as HostPort. A range has the same ports there.
	ContainerPort int `json:"containerPort,omitempty"`
	// Protocol is "tcp", "udp" or "sctp". Empty: tcp.
	Protocol string `json:"protocol,omitempty"`
	// HostIP is the address on the host. Empty: all.
	HostIP string `json:"hostIP,omitempty"`
}

// Port is a port of an allocation, assigned by a scheduler.
type Port struct {
	// Label names the port within the allocation. Required.
	Label string `json:"label"`
	// HostPort is the port on the host, 1 to 65535.
	HostPort int `json:"hostPort"`
	// LastHostPort is the last one of a range from HostPort on, which is mapped to the same ports. 0: HostPort alone is mapped.
	LastHostPort int `json:"lastHostPort,omitempty"`
	// To is the port in the namespace. 0: the same as HostPort.
	To int `json:"to,omitempty"`
	// HostIP is the address on the host. Empty: all.
	HostIP string `json:"hostIP,omitempty"`
	// Protocol is "tcp", "udp" or "sctp". Empty: tcp and udp.
	Protocol string `json:"protocol,omitempty"`
}
