// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// removeStray removes an attachment's interface that a task has renamed, or moved to another namespace. Path is that of the
// allocation's namespace; empty if that is gone.
func removeStray(ctx context.Context, o *operation.Operation, a state.Attachment, list *libcni.NetworkConfigList, path string) error {
	seen, err := onrecord.ReadStatus(a)
	if err != nil { // nothing tells which one it is
		seen = onrecord.Status{}
	}
	if path != "" {
		if hasMAC, err := removeRenamed(o, a, seen); hasMAC || err != nil {
			return err
		}
	}
	if seen.MAC == "" {
		return nil
	}
	return removeMovedAway(ctx, o, a, list, seen, path)
}

// removeRenamed removes an attachment's interface that a task has renamed: plugins report success when there is none of the
// name, and give its address to the next attachment, while this one goes on using it. It tells whether the namespace has
// one with a link outside and the recorded MAC.
func removeRenamed(o *operation.Operation, a state.Attachment, seen onrecord.Status) (hasMAC bool, err error) {
	ns, err := o.Namespace()
	if errors.Is(err, netns.ErrMissing) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	present, err := ns.Interfaces()
	if err != nil {
		return false, err
	}
	for _, i := range present {
		hasMAC = hasMAC || i.LinkOutside && strings.EqualFold(i.MAC, seen.MAC)
		if !seen.IsRenamed(a.Interface, i) || inspect.IsAttached(o.Record, i) {
			continue
		}
		o.AttachmentLog(a).Info("removing the interface, which was renamed", "name", i.Name)
		if err := ns.RemoveInterface(i.Name); err != nil {
			return false, err
		}
	}
	return hasMAC, nil
}

// removeMovedAway removes an attachment's macvlan that a task has moved to another namespace, as that of a container in the
// allocation: it would use its address on when the next attachment has it. MAC, address and master together tell it from what
// other programs have. The kinds vlan and ipvlan have the MAC of their master, which tells nothing.
func removeMovedAway(ctx context.Context, o *operation.Operation, a state.Attachment, list *libcni.NetworkConfigList, seen onrecord.Status, path string) error {
	if past, err := o.Record.Allocation.IsOfEarlierBoot(); past || err != nil {
		return err
	}
	master, err := macvlanMaster(o, list)
	if master == 0 {
		return err
	}
	since := time.Now()
	if path == "" { // many may be gone, and one search serves them
		since = o.Record.Allocation.Created
	}
	is := func(i netns.Interface) bool {
		return i.Kind == "macvlan" && i.LinkOutside && i.Link == master && strings.EqualFold(i.MAC, seen.MAC) && seen.HasAddressOf(i)
	}
	found, err := o.Config.Namespaces.HavingMAC(strings.ToLower(seen.MAC), since)
	for _, ns := range found {
		err = errors.Join(err, removeHolder(ctx, o, ns, a, is), ns.Close())
	}
	return err
}

// macvlanMaster returns the index of the link of the host on which the plugin macvlan has made the interface; 0 if it is
// another plugin, or there is no such link.
func macvlanMaster(o *operation.Operation, list *libcni.NetworkConfigList) (int, error) {
	first := cniconf.Chain(list)[0]
	if first.Type != "macvlan" || first.LinkInContainer {
		return 0, nil
	}
	links, err := o.Config.Host.Interfaces()
	at := slices.IndexFunc(links, func(i netns.Interface) bool { return i.IsNamed(first.Master) })
	if at < 0 {
		return 0, err
	}
	return links[at].Index, nil
}

func removeHolder(ctx context.Context, o *operation.Operation, ns kernel.Namespace, a state.Attachment, is func(netns.Interface) bool) error {
	present, err := ns.Interfaces()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(present, is)
	if at < 0 {
		return nil
	}
	if recorded, err := isRecorded(ctx, o, ns); recorded || err != nil {
		return err
	}
	o.AttachmentLog(a).Info("removing the interface, which was moved to another namespace", "name", present[at].Name, "netns", ns.ID())
	return ns.RemoveInterface(present[at].Name)
}

// isRecorded tells whether a namespace is, or may be, that of an allocation: what it has may have the MAC that both
// configure, and the address since it was freed.
func isRecorded(ctx context.Context, o *operation.Operation, ns kernel.Namespace) (bool, error) {
	for record, err := range o.Store.List(ctx) {
		if err != nil {
			return false, err
		}
		if record.Allocation.NetnsID == ns.ID() || len(record.Damaged) > 0 && record.Allocation.NetnsID == "" {
			return true, nil
		}
	}
	return false, ctx.Err()
}
