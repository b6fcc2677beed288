// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Reattaching is the phase of an attachment that was detached to be attached again, and is not attached yet.
// Records have Attached, so that nothing rolls the allocation back, and the former result.
const Reattaching state.Phase = "reattaching"

// Allocation is an allocation with its attachments.
type Allocation struct {
	ID string `json:"id"`
	// Identity is whose it is, as the orchestrator says.
	Identity policy.Identity `json:"identity,omitzero"`
	// Owner identifies the caller of Setup; see Request.
	Owner string `json:"owner,omitempty"`
	Netns string `json:"netns"`
	// Attachments come primary first, then in the order of their interfaces'
	// numbering.
	Attachments []Attachment `json:"attachments"`
	// DNSSelection says whose DNS the allocation has: PrimaryDNS, MergedDNS, or the name
	// of a network. Empty: the record is of an earlier build, and means PrimaryDNS.
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

// Attachment is one network of an allocation.
type Attachment struct {
	Network   string `json:"network"`
	Interface string `json:"interface"`
	Primary   bool   `json:"primary"`
	// Task is Request.Task of the Extend that attached it.
	Task string `json:"task,omitempty"`
	// Phase is that of the record, Reattaching, or, from Engine.Current, Missing.
	Phase state.Phase `json:"phase"`
	// Missing is what is gone, in the phase Missing.
	Missing string `json:"missing,omitempty"`
	Observed
	// Attempts is the number of ADD calls, or in phase "pending" of teardowns.
	Attempts int       `json:"attempts"`
	Error    string    `json:"error,omitempty"`
	Created  time.Time `json:"created"`
	// Result is the CNI result in the version of the network's conflist. In
	// phase "adding" it is that of the plugins that are done.
	Result json.RawMessage `json:"result,omitempty"`
}

// NetworkStatus is an element of network-status as the network plumbing
// working group defines it (Multi-Network Specification, "Network Attachment
// Status").
type NetworkStatus struct {
	Name      string           `json:"name"`
	Interface string           `json:"interface"`
	IPs       []string         `json:"ips,omitempty"`
	MAC       string           `json:"mac,omitempty"`
	MTU       int              `json:"mtu,omitempty"`
	Default   bool             `json:"default,omitempty"`
	DNS       NetworkStatusDNS `json:"dns"`
	Gateway   []string         `json:"gateway,omitempty"`
}

// NetworkStatusDNS is the DNS part of a NetworkStatus.
type NetworkStatusDNS struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// NetworkStatus returns the allocation's network-status, primary first.
func (a *Allocation) NetworkStatus() []NetworkStatus {
	list := make([]NetworkStatus, len(a.Attachments))
	for i, attachment := range a.Attachments {
		list[i] = attachment.networkStatus()
	}
	return list
}

func (a Attachment) networkStatus() NetworkStatus {
	s := NetworkStatus{
		Name:      a.Network,
		Interface: a.Interface,
		MAC:       a.MAC,
		MTU:       a.MTU,
		Default:   a.Primary,
		DNS:       NetworkStatusDNS{a.DNS.Servers, a.DNS.Domain, a.DNS.Searches, a.DNS.Options},
	}
	for _, address := range a.Addresses {
		s.IPs = append(s.IPs, address.Addr().String())
	}
	for _, gateway := range a.Gateways {
		s.Gateway = append(s.Gateway, gateway.String())
	}
	return s
}

// Addresses returns all addresses of the allocation, the primary's first.
func (a *Allocation) Addresses() []netip.Prefix {
	var all []netip.Prefix
	for _, attachment := range a.Attachments {
		all = append(all, attachment.Addresses...)
	}
	return all
}

// Describe turns a record into what callers see.
func Describe(r state.Record) (*Allocation, error) {
	a := &Allocation{ID: r.Allocation.ID, Identity: r.Allocation.Identity, Owner: r.Allocation.Owner, Netns: r.Allocation.Netns, DNSSelection: r.Allocation.DNS, ResolvConf: r.Allocation.ResolvConf, Created: r.Allocation.Created}
	for _, recorded := range r.Attachments {
		attachment, err := describeAttachment(recorded)
		if err != nil {
			return nil, err
		}
		a.Attachments = append(a.Attachments, attachment)
	}
	a.DNS, _ = SelectedDNS(a.DNSSelection, a.Attachments) // what is dropped was logged at ADD
	for _, d := range r.Damaged {
		a.Damaged = append(a.Damaged, d.String())
	}
	return a, nil
}

func describeAttachment(r state.Attachment) (Attachment, error) {
	a := Attachment{
		Network: r.Network, Interface: r.Interface, Primary: r.Primary, Task: r.Task, Phase: r.Phase,
		Attempts: r.Attempts, Error: r.Error, Created: r.Created, Result: r.Result,
	}
	if IsReattached(r) {
		a.Phase = Reattaching
	}
	if r.Status == nil {
		return a, nil
	}
	if err := json.Unmarshal(r.Status, &a.Observed); err != nil {
		return a, fmt.Errorf("interface %s: read recorded status: %w", r.Interface, err)
	}
	return a, nil
}
