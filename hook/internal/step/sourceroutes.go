// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// sourceRouting gives an attachment a routing table and rules of its own: with those, replies to an address leave by its
// interface.
var sourceRouting = step{Completed: addSourceRoutes, Restored: restoreSourceRoutes, Undo: removeSourceRoutes, Lacks: lackingSourceRoutes}

// addSourceRoutes records the table and the rules before it makes them.
func addSourceRoutes(w *Work, a *state.Attachment) error {
	if a.SourceRoutes == nil {
		return nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	routes, err := sourceRoutes(ns, *a)
	if err == nil {
		a.SourceRoutes = routes
		err = w.Write(*a)
	}
	if err == nil {
		err = ns.AddSourceRoutes(*routes)
	}
	if err != nil {
		return fmt.Errorf("routing \"source\": %w", err)
	}
	return nil
}

func restoreSourceRoutes(w *Work, a *state.Attachment) error {
	if a.SourceRoutes == nil {
		return nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	return ns.AddSourceRoutes(*a.SourceRoutes)
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
		s.Routes = append(s.Routes, netns.TableRoute{Destination: netip.PrefixFrom(gateway, 0).Masked(), Gateway: gateway})
	}
	return s, nil
}

// removeSourceRoutes removes the table and the rules. A failure does not keep the attachment: they end with the namespace.
func removeSourceRoutes(_ context.Context, w *Work, a state.Attachment) {
	if a.SourceRoutes == nil {
		return
	}
	ns, err := w.Namespace()
	if errors.Is(err, netns.ErrMissing) {
		return
	}
	if err == nil {
		err = ns.RemoveSourceRoutes(*a.SourceRoutes)
	}
	if err != nil {
		w.log(a).Warn("routing rules are left in the namespace", "error", err)
	}
}

// lackingSourceRoutes looks for the rules and routes, which are made together.
func lackingSourceRoutes(_ context.Context, w *Work, a state.Attachment) (lacks []Lack, err error) {
	if a.SourceRoutes == nil {
		return nil, nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return nil, err
	}
	missing, err := ns.MissingSourceRoutes(*a.SourceRoutes)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	for _, what := range missing[1:] {
		lacks = append(lacks, Lack{What: what})
	}
	return append(lacks, Lack{missing[0], func() error { return ns.AddSourceRoutes(*a.SourceRoutes) }}), nil
}
