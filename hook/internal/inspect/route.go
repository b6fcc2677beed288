// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Namespace looks for damage that is in the namespace and not in an attachment.
// Verify does not: a task may do such damage, and the runtime would delete its namespace.
func Namespace(record state.Record, present []netns.Interface, routes []netns.Route) error {
	return errors.Join(Loopback(record.Allocation, present), checkOtherRoutes(record, routes))
}

// Loopback looks whether lo is up.
func Loopback(a state.Allocation, present []netns.Interface) error {
	for _, i := range present {
		if i.Name == "lo" && !i.Up {
			return Damaged("allocation %s: interface lo is down: to set it up: nsenter --net=%s ip link set lo up", a.ID, a.Netns)
		}
	}
	return nil
}

// checkOtherRoutes looks for default routes of interfaces that are not attachments,
// beside that of an attachment: of each family there is one.
func checkOtherRoutes(record state.Record, routes []netns.Route) error {
	var errs []error
	for _, v6 := range []bool{false, true} {
		var own, others []netns.Route
		for _, r := range netns.OfFamily(routes, v6) {
			if slices.ContainsFunc(record.Attachments, func(a state.Attachment) bool { return a.Interface == r.Interface }) {
				own = append(own, r)
			} else {
				others = append(others, r)
			}
		}
		for _, r := range others {
			if len(own) > 0 {
				errs = append(errs, Damaged("allocation %s: default route via %s dev %s is beside that via %s dev %s",
					record.Allocation.ID, r.Gateway, r.Interface, own[0].Gateway, own[0].Interface))
			}
		}
	}
	return errors.Join(errs...)
}

// LostGateways returns the gateways of recorded default routes that are gone. Without an address of its
// family an interface has none: IPv6 was switched off.
func LostGateways(a state.Attachment, recorded []netip.Addr, routes []netns.Route, present []netns.Interface) (lost []netip.Addr) {
	for _, gateway := range recorded {
		if !slices.Contains(onrecord.GatewaysBy(a.Interface, routes), gateway) && hasFamily(present, a.Interface, gateway.Is6()) {
			lost = append(lost, gateway)
		}
	}
	return lost
}

func hasFamily(present []netns.Interface, iface string, v6 bool) bool {
	return slices.ContainsFunc(present, func(i netns.Interface) bool {
		return i.Name == iface && slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() == v6 && !a.Addr().IsLinkLocalUnicast() })
	})
}

// ForeignGateways looks for default routes of an attachment's interface that are not recorded.
func ForeignGateways(a state.Attachment, routes []netns.Route) error {
	recorded, err := onrecord.ReadStatus(a)
	if err != nil {
		return err
	}
	for _, gateway := range onrecord.GatewaysBy(a.Interface, routes) {
		if !slices.Contains(recorded.Gateways, gateway) {
			return Damaged("default route via %s is not that of a network: a router advertisement or another program added it", gateway)
		}
	}
	return nil
}

// RefuseOtherRoutes refuses to attach again what makes a default route, if another program has made
// one, as that of a tunnel: packets would leave by the network instead.
func RefuseOtherRoutes(record state.Record, isKnown func(state.Attachment, *libcni.NetworkConfigList) bool, a state.Attachment, list *libcni.NetworkConfigList, present []netns.Route) error {
	seen, err := onrecord.ReadStatus(a)
	if err != nil {
		return err
	}
	makes := !isKnown(a, list) || namesDefaultRoute(list)
	for _, r := range present {
		opposed := slices.ContainsFunc(seen.Gateways, func(g netip.Addr) bool { return mayOppose(r, g) })
		if makes && !isRecordedRoute(record, a, r) {
			opposed = opposed || slices.ContainsFunc(seen.Addresses, func(p netip.Prefix) bool { return mayOppose(r, p.Addr()) })
		}
		if opposed && r.Interface != a.Interface {
			return fmt.Errorf("there is another default route, %s, which would not be used any more: remove it", routeText(r))
		}
	}
	return nil
}

// mayOppose tells whether a default route may be one of the family of an address: that of a route
// without a gateway is not known.
func mayOppose(r netns.Route, address netip.Addr) bool {
	return !r.Gateway.IsValid() || r.Gateway.Is6() == address.Is6()
}

// namesDefaultRoute tells whether plugins that allocnet knows may make a default route.
func namesDefaultRoute(list *libcni.NetworkConfigList) bool {
	return slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool {
		return bytes.Contains(p.Bytes, []byte("isDefaultGateway")) || bytes.Contains(p.Bytes, []byte(`/0"`))
	})
}

// isRecordedRoute tells whether a default route is that of another attachment, or was there before this
// one.
func isRecordedRoute(record state.Record, a state.Attachment, r netns.Route) bool {
	return slices.Contains(a.PreviousRoutes, r) || slices.ContainsFunc(record.Attachments, func(other state.Attachment) bool {
		seen, err := onrecord.ReadStatus(other)
		return err == nil && other.Interface == r.Interface && slices.Contains(seen.Gateways, r.Gateway)
	})
}

// routeText is where a default route leads.
func routeText(r netns.Route) string {
	if r.Gateway.IsValid() {
		return fmt.Sprintf("via %s dev %s", r.Gateway, r.Interface)
	}
	return "dev " + r.Interface
}

// Tables are the routing tables of a namespace.
type Tables interface {
	// MissingSourceRoutes returns what is not there of a table and its rules, as text.
	MissingSourceRoutes(s netns.SourceRoutes) ([]string, error)
}
