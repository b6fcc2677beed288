// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"net/netip"
	"time"
)

// Allocation is an allocation as recorded.
type Allocation struct {
	ID       string   `json:"id"`
	Identity Identity `json:"identity,omitzero"`
	// Owner is the unit or task that the allocation was set up for; empty for
	// none.
	Owner string `json:"owner,omitempty"`
	// Netns is the path of the network namespace.
	Netns string `json:"netns"`
	// Attachments come primary first, then in the order of their interfaces.
	Attachments []Attachment `json:"attachments"`
	// DNSSelection says whose DNS the allocation has: "primary", "merge", or the name of
	// a network.
	DNSSelection string `json:"dnsSelection,omitempty"`
	// DNS is that selection, with at most three servers.
	DNS DNS `json:"dns,omitzero"`
	// ResolvConf is the path of the namespace's resolv.conf, if allocnet made the
	// namespace.
	ResolvConf string    `json:"resolvConf,omitempty"`
	Created    time.Time `json:"created"`
	// Damaged are the parts of the record that cannot be read.
	Damaged []string `json:"damaged,omitempty"`
	// Error is why the record cannot be read, in a list only. Then only the ID is
	// known, and the allocation may be live.
	Error string `json:"error,omitempty"`
}

// Phase is the state of an attachment.
type Phase string

// Phases of an attachment.
const (
	// Adding: ADD was started, and may have done nothing, a part or all.
	Adding Phase = "adding"
	// Attached: ADD succeeded.
	Attached Phase = "attached"
	// Reattaching: it was detached to be attached again, and is not attached yet; Error says why.
	Reattaching Phase = "reattaching"
	// Deleting: DEL was started.
	Deleting Phase = "deleting"
	// Pending: DEL and forced cleanup failed, and are retried.
	Pending Phase = "pending"
	// Missing: it is attached on record, and its namespace or its interface is gone.
	Missing Phase = "missing"
)

// Attachment is one network of an allocation.
type Attachment struct {
	Network   string `json:"network"`
	Interface string `json:"interface"`
	Primary   bool   `json:"primary"`
	// Task is the Nomad task that the attachment belongs to; empty for the
	// allocation itself.
	Task  string `json:"task,omitempty"`
	Phase Phase  `json:"phase"`
	// Missing is what is gone, in the phase "missing".
	Missing string `json:"missing,omitempty"`
	// Addresses come from the interfaces in the sandbox first, by name.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	MAC       string         `json:"mac,omitempty"`
	MTU       int            `json:"mtu,omitempty"`
	// Gateways are those of the default routes through this interface.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	DNS      DNS          `json:"dns,omitzero"`
	Ports    []MappedPort `json:"ports,omitempty"`
	// Attempts is the number of ADD calls, or in phase "pending" of teardowns.
	Attempts int       `json:"attempts"`
	Error    string    `json:"error,omitempty"`
	Created  time.Time `json:"created"`
	// Result is the CNI result in the version of the network's conflist. In
	// phase "adding" it is that of the plugins that are done.
	Result json.RawMessage `json:"result,omitempty"`
}

// DNS is the DNS configuration that the plugins returned.
type DNS struct {
	Servers []string `json:"servers,omitempty"`
	// Domain is searched if Searches is empty.
	Domain   string   `json:"domain,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// MappedPort is a port mapping of an attachment.
type MappedPort struct {
	HostPort      int32  `json:"hostPort"`
	ContainerPort int32  `json:"containerPort"`
	Protocol      string `json:"protocol"`
	// HostIP is empty for all addresses of the host.
	HostIP string `json:"hostIP,omitempty"`
}
