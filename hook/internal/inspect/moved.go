// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/libcni"
	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// RefuseMoved refuses to detach what a task has moved on purpose: the interface has another name or
// is in another namespace, or another one has its addresses or its MAC, as that of a virtual machine.
func RefuseMoved(record state.Record, host Host, a state.Attachment, list *libcni.NetworkConfigList, present []netns.Interface) error {
	seen, err := onrecord.ReadStatus(a)
	if err != nil {
		return err
	}
	if err := movedTo(record, a, seen, present); err != nil {
		return err
	}
	if at := netns.Index(present, a.Interface); at >= 0 {
		return refuseUsed(present[at], seen.MAC, present)
	}
	// The interface may be in another namespace, where a task has moved it. That it is gone only its end on the host proves: both ends
	// of a veth pair go together.
	end, err := onrecord.HostEnd(a, list)
	if err != nil {
		return err
	}
	if end == nil {
		return fmt.Errorf("its plugin makes no veth pair, so that nothing tells whether %s is gone or a task has moved it to another namespace: start the allocation again", a.Interface)
	}
	return refuseEnd(host, a, end)
}

// Moved returns what proves that a task has moved an interface on purpose, which is gone under its name, or in whose place the task
// has made a bridge of that name: the attachment is not broken.
func Moved(record state.Record, host Host, a state.Attachment, present []netns.Interface) error {
	seen, unseen := onrecord.ReadStatus(a)
	list, err := onrecord.List(a)
	var end *types.Interface
	if err == nil {
		end, err = onrecord.HostEnd(a, list)
	}
	at := netns.Index(present, a.Interface)
	if err != nil || unseen != nil || a.FormerResult != nil || at >= 0 && present[at].Kind != "bridge" {
		return nil // without a record nothing proves it
	}
	if err := movedTo(record, a, seen, present); err != nil || end == nil {
		return err
	}
	return refuseEnd(host, a, end)
}

// movedTo returns an error that names the interface of the namespace which has the addresses or the MAC of an attachment's.
func movedTo(record state.Record, a state.Attachment, seen onrecord.Status, present []netns.Interface) error {
	for _, other := range present {
		if other.Name == a.Interface || IsAttached(record, other) {
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
		return NotAttached(i)
	}
	for _, other := range present {
		if i.Index != 0 && other.Link == i.Index && !other.LinkOutside {
			return fmt.Errorf("%s is on %s, and would be removed", other.Name, i.Name)
		}
	}
	return nil
}

// NotAttached is that an interface is another one than that which was attached.
func NotAttached(i netns.Interface) error {
	return fmt.Errorf("the namespace has an interface %s that is not the one which was attached, its MAC is %s: remove it, or rename it", i.Name, i.MAC)
}

// RefuseIPv6 refuses to attach an interface again on which IPv6 was switched off: ADD would switch it on.
func RefuseIPv6(ns ipv6Switch, a state.Attachment) error {
	seen, err := onrecord.ReadStatus(a)
	if err != nil || !slices.ContainsFunc(seen.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		return err
	}
	off, err := ns.IsIPv6Off(a.Interface)
	if err == nil && off {
		err = fmt.Errorf("IPv6 is switched off on %s, and would be switched on: switch it on, or start the allocation again", a.Interface)
	}
	return err
}

// IsAttached tells whether an interface is that of an attachment: names may have been swapped.
func IsAttached(record state.Record, i netns.Interface) bool {
	return slices.ContainsFunc(record.Attachments, func(a state.Attachment) bool {
		seen, err := onrecord.ReadStatus(a)
		return err == nil && a.Interface == i.Name && seen.MAC == i.MAC
	})
}

func refuseEnd(host Host, a state.Attachment, end *types.Interface) error {
	name, err := FindEnd(host, end)
	if err != nil || name == "" {
		return err
	}
	return fmt.Errorf("the host has its end %s of %s: a task has moved it to another namespace, or has renamed it", name, a.Interface)
}

// RefuseMaster refuses an attachment whose interface is the master of others: DEL would remove them.
func RefuseMaster(record state.Record, a state.Attachment) error {
	for _, other := range record.Attachments {
		list, err := cniconf.ParseList(other.ConfList)
		if err != nil {
			return fmt.Errorf("recorded conflist of interface %s: %w", other.Interface, err)
		}
		if other.Interface != a.Interface && len(onrecord.MasterInterfaces(cniconf.Chain(list), []state.Attachment{a})) > 0 {
			return fmt.Errorf("%s is on %s, and would be interrupted", other.Interface, a.Interface)
		}
	}
	return nil
}

// Host finds a link of the host.
type Host interface {
	LinkMTU(name string) (mtu int, ok bool, err error)
	FindLink(name, kind, mac string) (string, error)
}

type ipv6Switch interface {
	IsIPv6Off(iface string) (bool, error)
}

// FindEnd returns the name that the end of a pair on the host has now; empty if it is gone. An operator may have renamed
// it.
func FindEnd(host Host, end *types.Interface) (string, error) {
	_, there, err := host.LinkMTU(end.Name)
	if err != nil || there {
		return end.Name, err
	}
	return host.FindLink(end.Name, "veth", end.Mac)
}
