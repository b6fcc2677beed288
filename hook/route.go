// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// setDefaultRoutes leaves one default route for each family: that of the attachment
// which requests it, else the one from before, else that of the first attachment that
// has one. The kernel would prefer the newest for IPv4 and spread IPv6 over all. It
// returns the default routes then.
func (o *operation) setDefaultRoutes(ns kernel.Namespace, p *plan.Plan, before []netns.Route) ([]netns.Route, error) {
	for _, added := range p.Added {
		if added.Element.DefaultRoute == nil {
			continue
		}
		a := added.Attachment
		gateways, err := requestedGateways(added.Element, *a)
		if err != nil {
			return nil, o.failure("attach", *a, a.Attempts, err)
		}
		for _, gateway := range gateways {
			if err := o.setDefaultRoute(ns, netns.Route{Interface: a.Interface, Gateway: gateway}); err != nil {
				return nil, err
			}
		}
	}
	routes, err := ns.DefaultRoutes()
	if err != nil {
		return nil, err
	}
	changed, err := o.reconcileDefaultRoutes(ns, routes, before)
	if err != nil || !changed {
		return routes, err
	}
	return ns.DefaultRoutes()
}

// reconcileDefaultRoutes leaves one default route where several attachments set one and
// none requests it. It tells whether it changed any.
func (o *operation) reconcileDefaultRoutes(ns kernel.Namespace, routes, before []netns.Route) (changed bool, err error) {
	for _, v6 := range []bool{false, true} {
		now := netns.OfFamily(routes, v6)
		wanted, ok := o.firstOf(now)
		if i := slices.IndexFunc(netns.OfFamily(before, v6), func(r netns.Route) bool { return slices.Contains(now, r) }); i >= 0 {
			wanted, ok = netns.OfFamily(before, v6)[i], true
		}
		if len(now) < 2 || !ok {
			continue
		}
		changed = true
		if err := o.setDefaultRoute(ns, wanted); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// firstOf returns the route of the first attachment that has one.
func (o *operation) firstOf(routes []netns.Route) (first netns.Route, ok bool) {
	for _, a := range o.record.Attachments {
		for _, r := range routes {
			if r.Interface == a.Interface {
				return r, true
			}
		}
	}
	return netns.Route{}, false
}

// setDefaultRoute makes a route the only default one of its family.
func (o *operation) setDefaultRoute(ns kernel.Namespace, r netns.Route) error {
	present, err := ns.DefaultRoutes()
	if err == nil {
		o.recordPreviousRoutes(r, present)
		err = ns.SetDefaultRoute(r.Gateway, r.Interface)
	}
	if err == nil {
		err = o.recordDefaultRoute(r)
	}
	if err != nil {
		return fmt.Errorf("allocation %s: %w", o.record.Allocation.ID, err)
	}
	return nil
}

// recordPreviousRoutes adds the routes that r replaces to its attachment: one of them is
// restored when the attachment is removed. recordDefaultRoute writes the record.
func (o *operation) recordPreviousRoutes(r netns.Route, others []netns.Route) {
	at := slices.IndexFunc(o.record.Attachments, func(a state.Attachment) bool { return a.Interface == r.Interface })
	if at < 0 {
		return
	}
	a := &o.record.Attachments[at]
	for _, other := range netns.OfFamily(others, r.Gateway.Is6()) {
		if other.Interface != r.Interface && !slices.Contains(a.PreviousRoutes, other) {
			a.PreviousRoutes = append(slices.Clip(a.PreviousRoutes), other) // attachments of a plan share the slice
		}
	}
}

// requestedGateways returns the gateways that the element names, or else those
// that its plugins reported.
func requestedGateways(e selection.Element, a state.Attachment) ([]netip.Addr, error) {
	var gateways []netip.Addr
	for _, text := range e.DefaultRoute {
		gateway, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("default-route: %w", err)
		}
		gateways = append(gateways, gateway)
	}
	if len(gateways) > 0 {
		return gateways, nil
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return nil, err
	}
	for _, v6 := range []bool{false, true} {
		if gateway, ok := onrecord.Gateway(result, v6); ok {
			gateways = append(gateways, gateway)
		}
	}
	if len(gateways) == 0 {
		return nil, fmt.Errorf("default-route: the network reports no gateway: name one, as in \"default-route\": [\"10.1.0.1\"]")
	}
	return gateways, nil
}

// recordDefaultRoute writes the moved route to the recorded results and to libcni's
// cache, because CHECK compares these with the namespace.
func (o *operation) recordDefaultRoute(moved netns.Route) error {
	for i := range o.record.Attachments {
		a := &o.record.Attachments[i]
		if a.Result == nil { // pending, and recorded before it had one
			continue
		}
		list, err := cniconf.ParseList(a.ConfList)
		if err != nil {
			return err
		}
		result, err := onrecord.ParseResult(a.Result)
		if err != nil {
			return err
		}
		before := len(result.Routes)
		result.Routes = slices.DeleteFunc(result.Routes, func(r *types.Route) bool {
			return isDefault(r) && (r.Dst.IP.To4() == nil) == moved.Gateway.Is6()
		})
		if a.Interface == moved.Interface {
			result.Routes = append(result.Routes, defaultRoute(moved.Gateway))
		} else if len(result.Routes) == before {
			continue
		}
		if err := o.replaceResult(a, result, list.CNIVersion); err != nil {
			return err
		}
		if err := o.lock.Write(*a); err != nil {
			return err
		}
	}
	return nil
}

// restoreDefaultRoutes restores the default routes that removed attachments had replaced.
// A failure does not keep them on record.
func (o *operation) restoreDefaultRoutes() {
	if err := o.restorePreviousRoutes(o.previousRoutes()); err != nil {
		o.log.Warn("the previous default route is not restored", "error", err)
	}
	if o.record.Allocation.PreviousRoutes == nil {
		return
	}
	o.record.Allocation.PreviousRoutes = nil
	if err := o.lock.WriteAllocation(o.record.Allocation); err != nil {
		o.log.Warn("the record still has the previous default routes", "error", err)
	}
}

// previousRoutes returns the default routes that deleted attachments had replaced, which
// are on record with the allocation, and those of attachments whose DEL failed: it may
// have removed the interface before.
func (o *operation) previousRoutes() []netns.Route {
	previous := slices.Clone(o.record.Allocation.PreviousRoutes)
	for _, a := range slices.Backward(o.record.Attachments) {
		if a.Phase == state.Deleting || a.Phase == state.Pending {
			previous = append(previous, a.PreviousRoutes...)
		}
	}
	return previous
}

func (o *operation) restorePreviousRoutes(previous []netns.Route) error {
	if len(previous) == 0 {
		return nil
	}
	ns, err := o.namespace()
	if errors.Is(err, netns.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // only its routes change
	failed := o.restoreIn(ns, previous)
	routes, err := ns.DefaultRoutes()
	for i := range o.record.Attachments {
		if err == nil {
			err = o.updateGateways(&o.record.Attachments[i], routes)
		}
	}
	return errors.Join(failed, err)
}

// restoreIn restores a previous route whose interface is up, for each family that has no
// default route. Interfaces that are being removed get none.
func (o *operation) restoreIn(ns kernel.Namespace, previous []netns.Route) error {
	routes, err := ns.DefaultRoutes()
	if err != nil {
		return err
	}
	present, err := ns.Interfaces()
	if err != nil {
		return err
	}
	previous = slices.DeleteFunc(previous, func(r netns.Route) bool {
		return o.isRemoved(r.Interface) || !slices.ContainsFunc(present, func(i netns.Interface) bool { return i.Name == r.Interface && i.Up })
	})
	var failed error
	for _, v6 := range []bool{false, true} {
		if len(netns.OfFamily(routes, v6)) == 0 {
			failed = errors.Join(failed, o.restoreFirst(ns, netns.OfFamily(previous, v6)))
		}
	}
	return failed
}

// isRemoved tells whether an interface is that of an attachment whose removal has begun.
func (o *operation) isRemoved(iface string) bool {
	return slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool {
		return a.Interface == iface && (a.Phase == state.Deleting || a.Phase == state.Pending)
	})
}

// restoreFirst restores the first of the routes of a family that the kernel accepts: a
// gateway may have become unreachable.
func (o *operation) restoreFirst(ns kernel.Namespace, candidates []netns.Route) error {
	var failed error
	for i, r := range candidates {
		err := ns.SetDefaultRoute(r.Gateway, r.Interface)
		if err == nil {
			o.recordPreviousRoutes(r, candidates[i+1:])
			return o.recordDefaultRoute(r)
		}
		o.log.Warn("a previous default route cannot be restored", "error", err)
		failed = errors.Join(failed, err)
	}
	return failed
}

// withoutRoutesByEachOther returns attachments that are removed together without their
// previous routes on each other's interfaces. One that cannot be removed now is recorded
// again, when another attachment may soon have the name of a removed interface.
func withoutRoutesByEachOther(attachments []state.Attachment) []state.Attachment {
	removed := slices.Clone(attachments)
	for i := range removed {
		removed[i].PreviousRoutes = slices.DeleteFunc(slices.Clone(removed[i].PreviousRoutes), func(r netns.Route) bool {
			return slices.ContainsFunc(attachments, func(a state.Attachment) bool { return a.Interface == r.Interface })
		})
	}
	return removed
}

// updateGateways records the default routes that an attachment has now.
func (o *operation) updateGateways(a *state.Attachment, routes []netns.Route) error {
	if a.Status == nil {
		return nil
	}
	seen, err := onrecord.ReadStatus(*a)
	if err != nil {
		return err
	}
	gateways := onrecord.GatewaysBy(a.Interface, routes)
	if slices.Equal(seen.Gateways, gateways) {
		return nil
	}
	seen.Gateways = gateways
	if a.Status, err = json.Marshal(seen); err != nil {
		return o.failure("attach", *a, a.Attempts, err)
	}
	return o.lock.Write(*a)
}

func (o *operation) replaceResult(a *state.Attachment, result *types100.Result, cniVersion string) error {
	encoded, err := onrecord.EncodeResult(result, cniVersion)
	if err != nil {
		return err
	}
	a.Result = encoded
	return o.writeCache(*a)
}

func isDefault(r *types.Route) bool {
	ones, _ := r.Dst.Mask.Size()
	return ones == 0
}

func defaultRoute(gateway netip.Addr) *types.Route {
	size := gateway.BitLen()
	return &types.Route{
		Dst: net.IPNet{IP: make(net.IP, size/8), Mask: net.CIDRMask(0, size)},
		GW:  gateway.AsSlice(),
	}
}
