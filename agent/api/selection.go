// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

// Selection is a list of networks. The agent also accepts one element, or a
// string in the short form of `--networks`, and checks the selection.
type Selection []Element

// Element selects one network (Multi-Network Specification, "Network Attachment
// Selection Annotation").
type Element struct {
	// Name is the network's. Required.
	Name string `json:"name"`
	// Interface is the name inside the namespace. Empty: eth0 for the primary,
	// else net1, net2 and so on.
	Interface string `json:"interface,omitempty"`
	// IPs are static addresses, with or without a prefix length.
	IPs []string `json:"ips,omitempty"`
	// MAC is an Ethernet address. Empty: the kernel's choice.
	MAC string `json:"mac,omitempty"`
	// MTU is 1280 to the network's. 0: the network's.
	MTU int `json:"mtu,omitempty"`
	// Bandwidth limits traffic. Nil: the network's limits.
	Bandwidth *Bandwidth `json:"bandwidth,omitempty"`
	// PortMappings are mapped to this attachment besides Ports.
	PortMappings []PortMapping `json:"portMappings,omitempty"`
	// DefaultRoute makes this attachment the default route: through these
	// gateways, at most one for each family, or when empty through the network's
	// own. Nil: not requested.
	DefaultRoute []string `json:"default-route,omitzero"`
	// CNIArgs are merged into "args"."cni" of the network's plugins.
	CNIArgs map[string]any `json:"cni-args,omitempty"`
	// InfinibandGUID is an EUI-64. Empty: the fabric's choice.
	InfinibandGUID string `json:"infiniband-guid,omitempty"`
	// Ports are labels of the allocation's ports that go to this network. Nil:
	// none, or for the primary all that no other network takes.
	Ports []string `json:"ports,omitempty"`
}

// Bandwidth is the bandwidth capability of the CNI conventions: rates in bits
// per second, bursts in bits.
type Bandwidth struct {
	IngressRate  uint64 `json:"ingressRate,omitempty"`
	IngressBurst uint64 `json:"ingressBurst,omitempty"`
	EgressRate   uint64 `json:"egressRate,omitempty"`
	EgressBurst  uint64 `json:"egressBurst,omitempty"`
}

// PortMapping is an element of the portMappings capability.
type PortMapping struct {
	HostPort int `json:"hostPort"`
	// ContainerPort is the port inside the namespace. 0: the same as HostPort.
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
	// To is the port inside the namespace. 0: the same as HostPort.
	To int `json:"to,omitempty"`
	// HostIP is the address on the host. Empty: all.
	HostIP string `json:"hostIP,omitempty"`
	// Protocol is "tcp", "udp" or "sctp". Empty: tcp and udp.
	Protocol string `json:"protocol,omitempty"`
}
