// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// refuseOtherRoutes refuses to attach again what makes a default route, if another program has made
// one, as that of a tunnel: packets would leave by the network instead.
func (o *operation) refuseOtherRoutes(a state.Attachment, present []netns.Route) error {
	seen, err := onrecord.ReadStatus(a)
	if err != nil {
		return err
	}
	list, err := onrecord.List(a)
	if err != nil {
		return err
	}
	makes := !o.isKnown(a, list) || namesDefaultRoute(list)
	for _, r := range present {
		opposed := slices.ContainsFunc(seen.Gateways, func(g netip.Addr) bool { return mayOppose(r, g) })
		if makes && !o.isRecordedRoute(a, r) {
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
func (o *operation) isRecordedRoute(a state.Attachment, r netns.Route) bool {
	return slices.Contains(a.PreviousRoutes, r) || slices.ContainsFunc(o.record.Attachments, func(other state.Attachment) bool {
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
