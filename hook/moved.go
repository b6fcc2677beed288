// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// refuseMoved refuses to detach what a task has moved on purpose: the interface has another name or
// is in another namespace, or another one has its addresses or its MAC, as that of a virtual machine.
func (o *operation) refuseMoved(a state.Attachment, present []netns.Interface) error {
	seen, err := readStatus(a)
	if err != nil {
		return err
	}
	for _, other := range present {
		if o.isAttached(other.Name) {
			continue
		}
		if seen.MAC != "" && other.MAC == seen.MAC {
			return fmt.Errorf("%s has the MAC of %s: a task has moved it", other.Name, a.Interface)
		}
		for _, address := range seen.Configured {
			if slices.ContainsFunc(other.Addresses, func(p netip.Prefix) bool { return p.Addr() == address.Addr() }) {
				return fmt.Errorf("%s has the address %s of %s: a task has moved it", other.Name, address.Addr(), a.Interface)
			}
		}
	}
	if slices.ContainsFunc(present, func(i netns.Interface) bool { return i.Name == a.Interface }) {
		return nil
	}
	return o.refuseOtherNamespace(a)
}

// isAttached tells whether an interface is that of an attachment.
func (o *operation) isAttached(name string) bool {
	return slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool { return a.Interface == name })
}

// refuseOtherNamespace refuses an attachment whose interface is gone, but not its end on the host: both
// ends of a veth pair go together.
func (o *operation) refuseOtherNamespace(a state.Attachment) error {
	result, err := parseResult(a.Result)
	if err != nil {
		return err
	}
	for _, i := range result.Interfaces {
		if i.Sandbox == "" && i.Mac != "" && o.config.Host.HasVeth(i.Name, i.Mac) {
			return fmt.Errorf("the host has its end %s of %s: a task has moved it to another namespace, or has renamed it", i.Name, a.Interface)
		}
	}
	return nil
}

// refuseMaster refuses an attachment whose interface is the master of others: DEL would remove them.
func (o *operation) refuseMaster(a state.Attachment) error {
	for _, other := range o.record.Attachments {
		list, err := cniconf.ParseList(other.ConfList)
		if err != nil {
			return fmt.Errorf("recorded conflist of interface %s: %w", other.Interface, err)
		}
		if other.Interface != a.Interface && len(masterInterfaces(list, []state.Attachment{a})) > 0 {
			return fmt.Errorf("%s is on %s, and would be interrupted", other.Interface, a.Interface)
		}
	}
	return nil
}
