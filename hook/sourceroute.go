// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// addSourceRoutes gives attachments their tables and rules: with those, replies to an
// address leave by its interface. They are on record before they are made.
func (o *operation) addSourceRoutes(ns kernel.Namespace, p *plan.Plan) error {
	for _, added := range p.Added {
		a := added.Attachment
		if a.SourceRoutes == nil {
			continue
		}
		routes, err := sourceRoutes(ns, *a)
		if err == nil {
			a.SourceRoutes = routes
			err = o.lock.Write(*a)
		}
		if err == nil {
			err = ns.AddSourceRoutes(*routes)
		}
		if err != nil {
			return o.failure("attach", *a, a.Attempts, fmt.Errorf("routing \"source\": %w", err))
		}
	}
	return nil
}

// sourceRoutes returns the table of an attachment: the routes of the main table through
// its interface, and a default route for each family of its addresses.
func sourceRoutes(ns kernel.Namespace, a state.Attachment) (*netns.SourceRoutes, error) {
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return nil, err
	}
	present, err := ns.RoutesOf(a.Interface)
	if err != nil {
		return nil, err
	}
	s := &netns.SourceRoutes{Table: a.SourceRoutes.Table, Interface: a.Interface}
	for _, address := range onrecord.InterfaceAddresses(result, a.Interface) {
		s.Addresses = append(s.Addresses, address.Addr())
	}
	if len(s.Addresses) == 0 {
		return nil, errors.New("the network's plugins report no address: add an IPAM plugin to the network, or remove the option")
	}
	gateways := map[bool]netip.Addr{} // by whether they are of IPv6
	for _, r := range present {
		if r.Destination.Bits() > 0 {
			s.Routes = append(s.Routes, r)
		} else if r.Gateway.IsValid() {
			gateways[r.Gateway.Is6()] = r.Gateway
		}
	}
	for _, v6 := range []bool{false, true} {
		i := slices.IndexFunc(s.Addresses, func(address netip.Addr) bool { return address.Is6() == v6 })
		if i < 0 {
			continue
		}
		gateway, ok := onrecord.Gateway(result, v6)
		if !ok {
			gateway = gateways[v6]
		}
		if !gateway.IsValid() {
			return nil, fmt.Errorf("the network's plugins report no gateway for %s: add one to the IPAM plugin's configuration, or remove the option", s.Addresses[i])
		}
		s.Routes = append(s.Routes, netns.TableRoute{Destination: allOf(v6), Gateway: gateway})
	}
	return s, nil
}

// allOf is the destination of default routes.
func allOf(v6 bool) netip.Prefix {
	if v6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// removeSourceRoutes removes the table and the rules of an attachment. A failure does not
// keep it attached: they end with the namespace.
func (o *operation) removeSourceRoutes(a state.Attachment, path string) {
	if a.SourceRoutes == nil || path == "" {
		return
	}
	ns, err := o.namespace()
	if err == nil {
		defer ns.Close() //nolint:errcheck // only its routes change
		err = ns.RemoveSourceRoutes(*a.SourceRoutes)
	}
	if err != nil {
		o.attachmentLog(a).Warn("routing rules are left in the namespace", "error", err)
	}
}
