// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package allocation has what is asked for and told of allocations and their attachments. The engine gets
// and returns it, and the agent's API and the command line have it as JSON, so that each thing has one type. It stands on the
// standard library: a client of the agent links neither the engine nor netlink.
package allocation

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// Allocation is an allocation with its attachments.
type Allocation struct {
	ID string `json:"id"`
	// Identity is whose it is, as the orchestrator says.
	Identity Identity `json:"identity,omitzero"`
	// Owner is the unit or task that the allocation was set up for; empty for none.
	Owner string `json:"owner,omitempty"`
	// Netns is the path of the network namespace.
	Netns string `json:"netns"`
	// Attachments come primary first, then in the order of their interfaces'
	// numbering.
	Attachments []Attachment `json:"attachments"`
	// DNSSelection says whose DNS the allocation has: "primary", "merge", or the name of
	// a network. Empty: the record is of an earlier build, and means "primary".
	DNSSelection string `json:"dnsSelection,omitempty"`
	// DNS is that selection, with at most three servers.
	DNS DNS `json:"dns,omitzero"`
	// ResolvConf is the path of the namespace's resolv.conf, if allocnet made the
	// namespace. Empty: another program did.
	ResolvConf string    `json:"resolvConf,omitempty"`
	Created    time.Time `json:"created"`
	// Damaged says which parts of the record could not be read.
	Damaged []string `json:"damaged,omitempty"`
	// Error says, in a list, why the record cannot be read: then nothing but the
	// ID is known, and the allocation may live.
	Error string `json:"error,omitempty"`
}

// Identity is an allocation's identity in the orchestrator: no field comes from the
// job's author. Empty fields are unknown.
type Identity struct {
	Namespace string `json:"namespace,omitempty"`
	Job       string `json:"job,omitempty"`
	Group     string `json:"group,omitempty"`
	Region    string `json:"region,omitempty"`
}

// Attachment is one network of an allocation.
type Attachment struct {
	Network   string `json:"network"`
	Interface string `json:"interface"`
	Primary   bool   `json:"primary"`
	// Task is the Nomad task that the attachment belongs to; empty for the
	// allocation itself.
	Task  string `json:"task,omitempty"`
	Phase Phase  `json:"phase"`
	// Missing is what is gone, in the phase Missing.
	Missing string `json:"missing,omitempty"`
	Observed
	// Denied is what isolation has dropped of it, since it was attached or the host's tables were made anew. Nil: it is not counted, or not known.
	Denied *Denied `json:"denied,omitempty"`
	// Attempts is the number of ADD calls, or in phase Pending of teardowns.
	Attempts int       `json:"attempts"`
	Error    string    `json:"error,omitempty"`
	Created  time.Time `json:"created"`
	// Result is the CNI result in the version of the network's conflist. In
	// phase Adding it is that of the plugins that are done.
	Result json.RawMessage `json:"result,omitempty"`
}

// Phase is a phase of an attachment's life cycle.
type Phase string

// Phases of an attachment. Records have neither Reattaching nor Missing.
const (
	// Adding: ADD began, and may have done nothing, a part or all.
	Adding Phase = "adding"
	// Attached: ADD succeeded.
	Attached Phase = "attached"
	// Reattaching: it was detached to be attached again, and is not attached yet; Error says why.
	Reattaching Phase = "reattaching"
	// Deleting: DEL began.
	Deleting Phase = "deleting"
	// Pending: DEL and forced cleanup failed, and are to be retried.
	Pending Phase = "pending"
	// Missing: it is attached on record, and its namespace or its interface is gone, unless a task has
	// moved the interface.
	Missing Phase = "missing"
)

// Observed is what an attachment has, as its plugins reported it and as the
// namespace showed what they did not report.
type Observed struct {
	// Addresses come from the interfaces in the sandbox first, by name.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	MAC       string         `json:"mac,omitempty"`
	MTU       int            `json:"mtu,omitempty"`
	// Gateways are those of the namespace's default routes through this
	// interface.
	Gateways []netip.Addr  `json:"gateways,omitempty"`
	DNS      DNS           `json:"dns,omitzero"`
	Ports    []PortMapping `json:"ports,omitempty"`
}

// DNS is the DNS configuration that the plugins returned. Records of earlier builds
// have the keys with capitals, which encoding/json reads as well.
type DNS struct {
	Servers []string `json:"servers,omitempty"`
	// Domain is searched if Searches is empty.
	Domain   string   `json:"domain,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// PortMapping is a port of the host that is mapped to the attachment. For the keys of
// earlier records see DNS.
type PortMapping struct {
	HostPort      int32  `json:"hostPort"`
	ContainerPort int32  `json:"containerPort"`
	Protocol      string `json:"protocol"`
	// HostIP is empty for all addresses of the host.
	HostIP string `json:"hostIP,omitempty"`
	// LastHostPort is the last one of a range from HostPort on, which is mapped to the same ports. 0: HostPort alone is mapped.
	LastHostPort int32 `json:"lastHostPort,omitempty"`
}

// HostPorts are the ports of the host.
func (m PortMapping) HostPorts() PortRange {
	return PortRange{int(m.HostPort), int(max(m.HostPort, m.LastHostPort))}
}

// ContainerPorts are the ports in the namespace.
func (m PortMapping) ContainerPorts() PortRange {
	more := m.HostPorts().Last - int(m.HostPort)
	return PortRange{int(m.ContainerPort), int(m.ContainerPort) + more}
}

// Has tells whether a port of the host is mapped.
func (m PortMapping) Has(port int32) bool {
	return m.HostPort <= port && port <= max(m.HostPort, m.LastHostPort)
}

// String is HOST-IP:HOST-PORTS->PORTS/PROTOCOL.
func (m PortMapping) String() string {
	host := m.HostPorts().String()
	if m.HostIP != "" {
		host = m.HostIP + ":" + host
	}
	return fmt.Sprintf("%s->%s/%s", host, m.ContainerPorts(), m.Protocol)
}

// Addresses returns all addresses of the allocation, the primary's first.
func (a *Allocation) Addresses() []netip.Prefix {
	var all []netip.Prefix
	for _, attachment := range a.Attachments {
		all = append(all, attachment.Addresses...)
	}
	return all
}
