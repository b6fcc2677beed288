// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"fmt"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// What callers see.
type (
	// Allocation is an allocation with its attachments.
	Allocation = allocation.Allocation
	// Attachment is one network of an allocation.
	Attachment = allocation.Attachment
	// Observed is what an attachment has.
	Observed = allocation.Observed
	// DNS is the DNS configuration that the plugins returned.
	DNS = allocation.DNS
	// PortMapping is a port of the host that is mapped to the attachment.
	PortMapping = allocation.PortMapping
	// NetworkStatus is an element of network-status.
	NetworkStatus = allocation.NetworkStatus
)

// Reattaching is the phase of an attachment that was detached to be attached again, and is not attached yet.
// Records have Attached, so that nothing rolls the allocation back, and the former result.
const Reattaching = allocation.Reattaching

// describe turns a record into what callers see.
func describe(r state.Record) (*Allocation, error) {
	a := &Allocation{ID: r.Allocation.ID, Identity: r.Allocation.Identity, Owner: r.Allocation.Owner, Netns: r.Allocation.Netns, DNSSelection: r.Allocation.DNS, ResolvConf: r.Allocation.ResolvConf, Created: r.Allocation.Created}
	for _, recorded := range r.Attachments {
		attachment, err := describeAttachment(recorded)
		if err != nil {
			return nil, err
		}
		a.Attachments = append(a.Attachments, attachment)
	}
	a.DNS, _ = selectedDNS(a.DNSSelection, a.Attachments) // what is dropped was logged at ADD
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
	if onrecord.IsReattached(r) {
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
