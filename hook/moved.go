// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"net/netip"
	"slices"

	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/inprocess"
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
	if err := o.movedTo(a, seen, present); err != nil {
		return err
	}
	if at := indexOf(present, a.Interface); at >= 0 {
		return refuseUsed(present[at], seen.MAC, present)
	}
	return o.refuseOtherNamespace(a)
}

// moved returns what proves that a task has moved an interface on purpose, which is gone under its name, or in whose place the task
// has made a bridge of that name: the attachment is not broken.
func (o *operation) moved(a state.Attachment, present []netns.Interface) error {
	seen, err := readStatus(a)
	end, endErr := hostEnd(a)
	at := indexOf(present, a.Interface)
	if err != nil || endErr != nil || a.FormerResult != nil || at >= 0 && present[at].Kind != "bridge" {
		return nil //nolint:nilerr // without a record nothing proves it
	}
	if err := o.movedTo(a, seen, present); err != nil || end == nil {
		return err
	}
	return o.refuseEnd(a, end)
}

// spareMoved makes what seems broken of an interface no damage if something proves that a task has moved it. A caller that
// attaches again is told why it does not.
func (p *repairing) spareMoved(ns Namespace) {
	if len(p.Unrepairable) == 0 && p.Err == nil || p.reattaches {
		return
	}
	present, err := ns.Interfaces()
	if err != nil { // it stays broken, which another look has to confirm
		return
	}
	if moved := p.operation.moved(*p.attachment(), present); moved != nil {
		p.moved, p.Repair = moved.Error(), inprocess.Repair{DryRun: true}
	}
}

// movedTo returns an error that names the interface of the namespace which has the addresses or the MAC of an attachment's.
func (o *operation) movedTo(a state.Attachment, seen recordedStatus, present []netns.Interface) error {
	for _, other := range present {
		if other.Name == a.Interface || o.isAttached(other) {
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
	return nil
}

// refuseUsed refuses to remove an interface that is not the one which was attached, or that a task uses
// for others: what is behind it would be interrupted.
func refuseUsed(i netns.Interface, mac string, present []netns.Interface) error {
	if i.Master != 0 {
		return fmt.Errorf("%s is a port of another interface of the namespace: a task has moved it", i.Name)
	}
	if i.MAC != mac {
		return notAttached(i)
	}
	for _, other := range present {
		if i.Index != 0 && other.Link == i.Index && !other.LinkOutside {
			return fmt.Errorf("%s is on %s, and would be removed", other.Name, i.Name)
		}
	}
	return nil
}

func notAttached(i netns.Interface) error {
	return fmt.Errorf("the namespace has an interface %s that is not the one which was attached, its MAC is %s: remove it, or rename it", i.Name, i.MAC)
}

// refuseForeign refuses to go on with a reattachment that was interrupted if DEL would remove an
// interface that is neither the former one nor what ADD has reported: a task may have made it since.
func (o *operation) refuseForeign(a state.Attachment, present []netns.Interface) error {
	seen, err := readStatus(a)
	if err != nil || a.Planned { // before ADD there is no DEL
		return err
	}
	found := []state.Attachment{a}
	o.recallResults(found)
	for _, i := range present {
		if i.Name == a.Interface && i.MAC != seen.MAC && !shows(found[0], []netns.Interface{i}) {
			return notAttached(i)
		}
	}
	return nil
}

// refuseIPv6 refuses to attach an interface again on which IPv6 was switched off: ADD would switch it on.
func refuseIPv6(ns Namespace, a state.Attachment) error {
	seen, err := readStatus(a)
	if err != nil || !slices.ContainsFunc(seen.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		return err
	}
	off, err := ns.IsIPv6Off(a.Interface)
	if err == nil && off {
		err = fmt.Errorf("IPv6 is switched off on %s, and would be switched on: switch it on, or start the allocation again", a.Interface)
	}
	return err
}

// isAttached tells whether an interface is that of an attachment: names may have been swapped.
func (o *operation) isAttached(i netns.Interface) bool {
	return slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool {
		seen, err := readStatus(a)
		return err == nil && a.Interface == i.Name && seen.MAC == i.MAC
	})
}

// refuseOtherNamespace refuses an attachment whose interface may be in another namespace, where a task has
// moved it. That it is gone only its end on the host proves: both ends of a veth pair go together.
func (o *operation) refuseOtherNamespace(a state.Attachment) error {
	end, err := hostEnd(a)
	if err != nil {
		return err
	}
	if end == nil {
		return fmt.Errorf("its plugin makes no veth pair, so that nothing tells whether %s is gone or a task has moved it to another namespace: start the allocation again", a.Interface)
	}
	return o.refuseEnd(a, end)
}

// refuseEnd returns an error if the host has its end of the veth pair of an attachment.
func (o *operation) refuseEnd(a state.Attachment, end *types.Interface) error {
	name, err := findEnd(o.config.Host, end)
	if err != nil || name == "" {
		return err
	}
	return fmt.Errorf("the host has its end %s of %s: a task has moved it to another namespace, or has renamed it", name, a.Interface)
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
