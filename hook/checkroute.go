// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

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

// checkGateways compares the default routes of an attachment with the record.
func checkGateways(a state.Attachment, routes []netns.Route) error {
	var recorded recordedStatus
	if err := json.Unmarshal(a.Status, &recorded); err != nil {
		return fmt.Errorf("read recorded status: %w", err)
	}
	present := gatewaysBy(a.Interface, routes)
	lacks := func(list []netip.Addr) func(netip.Addr) bool {
		return func(gateway netip.Addr) bool { return !slices.Contains(list, gateway) }
	}
	if i := slices.IndexFunc(recorded.Gateways, lacks(present)); i >= 0 {
		return damaged("default route via %s is gone", recorded.Gateways[i])
	}
	if i := slices.IndexFunc(present, lacks(recorded.Gateways)); i >= 0 {
		return damaged("default route via %s is not that of a network: a router advertisement or another program added it", present[i])
	}
	return nil
}
