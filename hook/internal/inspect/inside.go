// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"errors"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Inside compares the interface in the namespace with the record, which is possible whatever
// plugins made it.
func Inside(a state.Attachment, present []netns.Interface) error {
	if !onrecord.IsComplete(a) {
		return NotComplete(a)
	}
	seen, err := onrecord.ReadStatus(a)
	if err != nil {
		return err
	}
	if !onrecord.HasInterface(a, seen) {
		return nil
	}
	at := netns.Index(present, a.Interface)
	if at < 0 {
		return Damaged("interface is gone")
	}
	i := present[at]
	if seen.MAC != "" && i.MAC != seen.MAC && !followsMaster(a, i) {
		return Damaged("MAC is %s, was set up as %s", i.MAC, seen.MAC)
	}
	if !i.Up {
		return Damaged("interface is down")
	}
	for _, address := range seen.Configured {
		if !slices.Contains(i.Addresses, address) {
			return Damaged("address %s is gone", address)
		}
	}
	return nil
}

// followsMaster tells whether the MAC of an interface that the plugin of the attachment makes is that of its master.
func followsMaster(a state.Attachment, i netns.Interface) bool {
	if !netns.FollowsMaster(i.Kind) {
		return false
	}
	list, err := onrecord.List(a)
	return err == nil && list.Plugins[0].Network.Type == i.Kind
}

// Attachment compares an attachment with what was listed of the namespace.
func Attachment(ns Tables, a state.Attachment, interfaces []netns.Interface, routes []netns.Route) error {
	if err := Inside(a, interfaces); err != nil {
		return err
	}
	recorded, err := onrecord.ReadStatus(a)
	if err != nil {
		return err
	}
	errs := []error{ForeignGateways(a, routes)}
	if lost := LostGateways(a, recorded.Gateways, routes, interfaces); len(lost) > 0 {
		errs = append(errs, Damaged("default route via %s is gone", lost[0]))
	}
	if a.SourceRoutes != nil {
		missing, err := ns.MissingSourceRoutes(*a.SourceRoutes)
		if err == nil && len(missing) > 0 {
			err = Damaged("%s is gone", missing[0])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
