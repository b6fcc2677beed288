// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"encoding/json"
	"fmt"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/state"
)

// Describe turns a record into what callers see.
func Describe(r state.Record) (*allocation.Allocation, error) {
	a := &allocation.Allocation{ID: r.Allocation.ID, Identity: r.Allocation.Identity, Owner: r.Allocation.Owner, Netns: r.Allocation.Netns, DNSSelection: r.Allocation.DNS, ResolvConf: r.Allocation.ResolvConf, Created: r.Allocation.Created}
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

func describeAttachment(r state.Attachment) (allocation.Attachment, error) {
	a := allocation.Attachment{
		Network: r.Network, Interface: r.Interface, Primary: r.Primary, Task: r.Task, Phase: r.Phase,
		Attempts: r.Attempts, Error: r.Error, Created: r.Created, Result: r.Result,
	}
	if len(r.Advertised) > 0 {
		var err error
		if a.Result, err = withAdvertised(r); err != nil {
			return a, fmt.Errorf("interface %s: %w", r.Interface, err)
		}
	}
	if IsReattached(r) {
		a.Phase = allocation.Reattaching
	}
	if r.Status == nil {
		return a, nil
	}
	if err := json.Unmarshal(r.Status, &a.Observed); err != nil {
		return a, fmt.Errorf("interface %s: read recorded status: %w", r.Interface, err)
	}
	return a, nil
}
