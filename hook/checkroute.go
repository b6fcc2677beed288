// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// checkNamespace looks for damage that is in the namespace and not in an attachment.
// Verify does not: a task may do such damage, and the runtime would delete its namespace.
func (o *operation) checkNamespace(present []netns.Interface, routes []netns.Route) error {
	return errors.Join(o.checkLoopback(present), o.checkOtherRoutes(routes))
}

// checkLoopback looks whether lo is up.
func (o *operation) checkLoopback(present []netns.Interface) error {
	for _, i := range present {
		if i.Name == "lo" && !i.Up {
			a := o.record.Allocation
			return damaged("allocation %s: interface lo is down: to set it up: nsenter --net=%s ip link set lo up", a.ID, a.Netns)
		}
	}
	return nil
}

// checkOtherRoutes looks for default routes of interfaces that are not attachments,
// beside that of an attachment: of each family there is one.
func (o *operation) checkOtherRoutes(routes []netns.Route) error {
	var errs []error
	for _, v6 := range []bool{false, true} {
		var own, others []netns.Route
		for _, r := range ofFamily(routes, v6) {
			if slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool { return a.Interface == r.Interface }) {
				own = append(own, r)
			} else {
				others = append(others, r)
			}
		}
		for _, r := range others {
			if len(own) > 0 {
				errs = append(errs, damaged("allocation %s: default route via %s dev %s is beside that via %s dev %s",
					o.record.Allocation.ID, r.Gateway, r.Interface, own[0].Gateway, own[0].Interface))
			}
		}
	}
	return errors.Join(errs...)
}

// lostGateways returns the gateways of recorded default routes that are gone. Without an address of its
// family an interface has none: IPv6 was switched off.
func lostGateways(a state.Attachment, recorded []netip.Addr, routes []netns.Route, present []netns.Interface) (lost []netip.Addr) {
	for _, gateway := range recorded {
		if !slices.Contains(onrecord.GatewaysBy(a.Interface, routes), gateway) && hasFamily(present, a.Interface, gateway.Is6()) {
			lost = append(lost, gateway)
		}
	}
	return lost
}

// hasFamily tells whether an interface has an address of a family.
func hasFamily(present []netns.Interface, iface string, v6 bool) bool {
	return slices.ContainsFunc(present, func(i netns.Interface) bool {
		return i.Name == iface && slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() == v6 && !a.Addr().IsLinkLocalUnicast() })
	})
}

// foreignGateways looks for default routes of an attachment's interface that are not recorded.
func foreignGateways(a state.Attachment, routes []netns.Route) error {
	recorded, err := onrecord.ReadStatus(a)
	if err != nil {
		return err
	}
	for _, gateway := range onrecord.GatewaysBy(a.Interface, routes) {
		if !slices.Contains(recorded.Gateways, gateway) {
			return damaged("default route via %s is not that of a network: a router advertisement or another program added it", gateway)
		}
	}
	return nil
}
