// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package allocation

import (
	"fmt"
	"net/netip"
	"time"
)

// Details are what is recorded of an attachment beside Attachment, and what it has on the host
// beside links.
type Details struct {
	Network   string `json:"network"`
	Interface string `json:"interface"`
	// ContainerID is what its plugins get as CNI_CONTAINERID.
	ContainerID string `json:"containerID"`
	// Executor is what executed ADD, in-process or plugins. Empty: ADD has not begun.
	Executor Executor `json:"executor,omitempty"`
	// CNIVersion is that of the recorded conflist, and Plugins are its plugins, by type.
	CNIVersion string   `json:"cniVersion,omitempty"`
	Plugins    []string `json:"plugins,omitempty"`
	// Updated is when the record was changed last.
	Updated time.Time `json:"updated"`
	// Rules are those that the attachment has to have for itself.
	Rules []Rule `json:"rules,omitempty"`
	// RulesError is why not all rules are known. Empty: they are.
	RulesError string  `json:"rulesError,omitempty"`
	Leases     []Lease `json:"leases,omitempty"`
	// Traffic is what its interface has counted. Nil: it is not known.
	Traffic *Traffic `json:"traffic,omitempty"`
}

// Traffic is what an interface has counted since the kernel made it.
type Traffic struct {
	ReceivedBytes uint64 `json:"receivedBytes"`
	SentBytes     uint64 `json:"sentBytes"`
}

// Executor is what executes the plugins of an attachment: in-process or plugins.
type Executor string

// Rule is a rule of the host's packet filters.
type Rule struct {
	// Program is iptables, ip6tables or nft.
	Program string `json:"program"`
	// Table has the family before the name for nft.
	Table string `json:"table"`
	Chain string `json:"chain"`
	// Rule is what the program prints for it.
	Rule    string `json:"rule"`
	Present bool   `json:"present"`
}

// Lease is that of an address from a pool of host-local or allocnet-ipam, or of a DHCP server.
type Lease struct {
	Address netip.Addr `json:"address"`
	// Plugin is host-local, allocnet-ipam or dhcp, or slaac for what router advertisements have given.
	Plugin string `json:"plugin"`
	// Pool is the name of the pool of allocnet-ipam, and the network for others.
	Pool string `json:"pool"`
	// Block is that of allocnet-ipam. Zero: the address is reserved, or of host-local.
	Block netip.Prefix `json:"block,omitzero"`
	// Since is when the lease was made, or extended by a DHCP server. Zero: there is none.
	Since time.Time `json:"since,omitzero"`
	// Expires is when the lease of a DHCP server ends unless it is extended. Zero: it does not end.
	Expires time.Time `json:"expires,omitzero"`
	// Problem is why the attachment does not have the lease. Empty: it does.
	Problem string `json:"problem,omitempty"`
}

// Remover is a process that has removed rules, as the kernel has told.
type Remover struct {
	// Name is what the process calls itself, printable.
	Name string `json:"name"`
	// PID is the process's, in the first PID namespace. Of one that has ended it is that of its thread.
	PID int `json:"pid"`
	// Parent is the name of the process that started it, printable. Empty: it is not known.
	Parent string `json:"parent,omitempty"`
}

// String names the process, and what started it.
func (r Remover) String() string {
	text := fmt.Sprintf("%s (PID %d)", r.Name, r.PID)
	if r.Parent != "" {
		text += ", started by " + r.Parent
	}
	return text
}
