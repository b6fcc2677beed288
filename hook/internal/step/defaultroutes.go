// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// defaultRoutes leaves one default route for each family, restores those that were there before, and knows what an attachment
// had when its batch was complete.
var defaultRoutes = step{Finished: setDefaultRoutes, Restored: restoreGateways, Removed: restoreDefaultRoutes, Lacks: lackingGateways}

// setDefaultRoutes leaves one default route for each family: that of the attachment
// which requests it, else the one from before, else that of the first attachment that
// has one. The kernel would prefer the newest for IPv4 and spread IPv6 over all.
func setDefaultRoutes(w *Work, p *plan.Plan) error {
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	for _, added := range p.Added {
		if added.Element.DefaultRoute == nil {
			continue
		}
		gateways, err := requestedGateways(added.Element, *added.Attachment)
		if err != nil {
			return w.Fail(*added.Attachment, err)
		}
		for _, gateway := range gateways {
			if err := setDefaultRoute(w, ns, netns.Route{Interface: added.Attachment.Interface, Gateway: gateway}); err != nil {
				return err
			}
		}
	}
	routes, err := ns.DefaultRoutes()
	if err != nil {
		return err
	}
	changed, err := reconcileDefaultRoutes(w, ns, routes, p.Before)
	if err != nil || !changed && len(p.Existing) == 0 {
		return err
	}
	return updateAll(w, ns, w.Record.Attachments[:len(p.Existing)])
}

// updateAll records the default routes that attachments have now.
func updateAll(w *Work, ns kernel.Namespace, attachments []state.Attachment) error {
	routes, err := ns.DefaultRoutes()
	for i := range attachments {
		if err == nil {
			err = updateGateways(w, &attachments[i], routes)
		}
	}
	return err
}

// reconcileDefaultRoutes leaves one default route where several attachments set one and
// none requests it. It tells whether it changed any.
func reconcileDefaultRoutes(w *Work, ns kernel.Namespace, routes, before []netns.Route) (changed bool, err error) {
	for _, v6 := range []bool{false, true} {
		now := netns.OfFamily(routes, v6)
		wanted, ok := firstOf(w, now)
		if i := slices.IndexFunc(netns.OfFamily(before, v6), func(r netns.Route) bool { return slices.Contains(now, r) }); i >= 0 {
			wanted, ok = netns.OfFamily(before, v6)[i], true
		}
		if len(now) < 2 || !ok {
			continue
		}
		changed = true
		if err := setDefaultRoute(w, ns, wanted); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

func firstOf(w *Work, routes []netns.Route) (first netns.Route, ok bool) {
	for _, a := range w.Record.Attachments {
		for _, r := range routes {
			if r.Interface == a.Interface {
				return r, true
			}
		}
	}
	return netns.Route{}, false
}

// setDefaultRoute makes a route the only default one of its family.
func setDefaultRoute(w *Work, ns kernel.Namespace, r netns.Route) error {
	present, err := ns.DefaultRoutes()
	if err == nil {
		recordPreviousRoutes(w, r, present)
		err = ns.SetDefaultRoute(r.Gateway, r.Interface)
	}
	if err == nil {
		err = recordDefaultRoute(w, r)
	}
	if err != nil {
		return fmt.Errorf("allocation %s: %w", w.Record.Allocation.ID, err)
	}
	return nil
}

// recordPreviousRoutes adds the routes that r replaces to its attachment: one of them is
// restored when the attachment is removed. recordDefaultRoute writes the record.
func recordPreviousRoutes(w *Work, r netns.Route, others []netns.Route) {
	at := slices.IndexFunc(w.Record.Attachments, func(a state.Attachment) bool { return a.Interface == r.Interface })
	if at < 0 {
		return
	}
	a := &w.Record.Attachments[at]
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
func recordDefaultRoute(w *Work, moved netns.Route) error {
	for i := range w.Record.Attachments {
		a := &w.Record.Attachments[i]
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
		result.Routes = slices.DeleteFunc(result.Routes, func(r *types.Route) bool { return isDefaultOf(r, moved.Gateway.Is6()) })
		if a.Interface == moved.Interface {
			result.Routes = append(result.Routes, defaultRoute(moved.Gateway))
		} else if len(result.Routes) == before {
			continue
		}
		if err := replaceResult(w, a, result, list.CNIVersion); err != nil {
			return err
		}
		if err := w.Write(*a); err != nil {
			return err
		}
	}
	return nil
}

// restoreDefaultRoutes restores the default routes that removed attachments had replaced.
// A failure does not keep them on record.
func restoreDefaultRoutes(w *Work) {
	if err := restorePreviousRoutes(w, previousRoutes(w)); err != nil {
		w.Log.Warn("the previous default route is not restored", "error", err)
	}
	if w.Record.Allocation.PreviousRoutes == nil {
		return
	}
	w.Record.Allocation.PreviousRoutes = nil
	if err := w.WriteAllocation(w.Record.Allocation); err != nil {
		w.Log.Warn("the record still has the previous default routes", "error", err)
	}
}

// previousRoutes returns the default routes that deleted attachments had replaced, which
// are on record with the allocation, and those of attachments whose DEL failed: it may
// have removed the interface before.
func previousRoutes(w *Work) []netns.Route {
	previous := slices.Clone(w.Record.Allocation.PreviousRoutes)
	for _, a := range slices.Backward(w.Record.Attachments) {
		if a.Phase == state.Deleting || a.Phase == state.Pending {
			previous = append(previous, a.PreviousRoutes...)
		}
	}
	return previous
}

func restorePreviousRoutes(w *Work, previous []netns.Route) error {
	if len(previous) == 0 {
		return nil
	}
	ns, err := w.Namespace()
	if errors.Is(err, netns.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	failed := restoreIn(w, ns, previous)
	return errors.Join(failed, updateAll(w, ns, w.Record.Attachments))
}

// restoreIn restores a previous route whose interface is up, for each family that has no
// default route. Interfaces that are being removed get none.
func restoreIn(w *Work, ns kernel.Namespace, previous []netns.Route) error {
	present, routes, err := kernel.Look(ns)
	if err != nil {
		return err
	}
	previous = slices.DeleteFunc(previous, func(r netns.Route) bool {
		return isRemoved(w, r.Interface) || !slices.ContainsFunc(present, func(i netns.Interface) bool { return i.Name == r.Interface && i.Up })
	})
	var failed error
	for _, v6 := range []bool{false, true} {
		if len(netns.OfFamily(routes, v6)) == 0 {
			failed = errors.Join(failed, restoreFirst(w, ns, netns.OfFamily(previous, v6)))
		}
	}
	return failed
}

// isRemoved tells whether an interface is that of an attachment whose removal has begun.
func isRemoved(w *Work, iface string) bool {
	return slices.ContainsFunc(w.Record.Attachments, func(a state.Attachment) bool {
		return a.Interface == iface && (a.Phase == state.Deleting || a.Phase == state.Pending)
	})
}

// restoreFirst restores the first of the routes of a family that the kernel accepts: a
// gateway may have become unreachable.
func restoreFirst(w *Work, ns kernel.Namespace, candidates []netns.Route) error {
	var failed error
	for i, r := range candidates {
		err := ns.SetDefaultRoute(r.Gateway, r.Interface)
		if err == nil {
			recordPreviousRoutes(w, r, candidates[i+1:])
			return recordDefaultRoute(w, r)
		}
		w.Log.Warn("a previous default route cannot be restored", "error", err)
		failed = errors.Join(failed, err)
	}
	return failed
}

// updateGateways records the default routes that an attachment has now.
func updateGateways(w *Work, a *state.Attachment, routes []netns.Route) error {
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
		return w.Fail(*a, err)
	}
	return w.Write(*a)
}

func replaceResult(w *Work, a *state.Attachment, result *types100.Result, cniVersion string) error {
	encoded, err := onrecord.EncodeResult(result, cniVersion)
	if err != nil {
		return err
	}
	a.Result = encoded
	return w.Cache(*a)
}

func defaultRoute(gateway netip.Addr) *types.Route {
	size := gateway.BitLen()
	return &types.Route{
		Dst: net.IPNet{IP: make(net.IP, size/8), Mask: net.CIDRMask(0, size)},
		GW:  gateway.AsSlice(),
	}
}

// restoreGateways gives the attachment the default routes that it had. Of the others, ADD has made some
// and set-up has removed them; those of other interfaces stay as they are.
func restoreGateways(w *Work, a *state.Attachment) error {
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	seen, err := onrecord.ReadStatus(*a)
	if err != nil {
		return err
	}
	now, err := ns.DefaultRoutes()
	if err != nil {
		return err
	}
	for _, v6 := range []bool{false, true} {
		had := slices.DeleteFunc(slices.Clone(seen.Gateways), func(g netip.Addr) bool { return g.Is6() != v6 })
		changed := !slices.Equal(onrecord.GatewaysBy(a.Interface, netns.OfFamily(now, v6)), had)
		if changed {
			err := ns.RemoveDefaultRoutes(a.Interface, v6)
			for _, gateway := range had {
				err = errors.Join(err, ns.AddDefaultRoute(gateway, a.Interface))
			}
			if err != nil {
				return err
			}
		}
		if err := recordGateways(w, a, v6, had, changed); err != nil {
			return err
		}
	}
	return nil
}

// recordGateways has the result say of default routes what the namespace has.
func recordGateways(w *Work, a *state.Attachment, v6 bool, gateways []netip.Addr, changed bool) error {
	former := *a
	former.Result = a.FormerResult
	reported, err := reportsDefaultRoute(*a, v6)
	if err != nil {
		return err
	}
	before, err := reportsDefaultRoute(former, v6)
	if err != nil || !changed && reported == before {
		return err
	}
	if len(gateways) > 0 {
		return recordDefaultRoute(w, netns.Route{Interface: a.Interface, Gateway: gateways[0]})
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return err
	}
	result.Routes = slices.DeleteFunc(result.Routes, func(r *types.Route) bool { return isDefaultOf(r, v6) })
	if err := replaceResult(w, a, result, result.CNIVersion); err != nil {
		return err
	}
	return w.Write(*a)
}

// reportsDefaultRoute tells whether the result of an attachment has a default route of a family.
func reportsDefaultRoute(a state.Attachment, v6 bool) (bool, error) {
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(result.Routes, func(r *types.Route) bool { return isDefaultOf(r, v6) }), nil
}

func isDefaultOf(r *types.Route, v6 bool) bool {
	ones, _ := r.Dst.Mask.Size()
	return ones == 0 && (r.Dst.IP.To4() == nil) == v6
}

// lackingGateways looks for the default routes that an attachment had when its batch was complete.
func lackingGateways(_ context.Context, w *Work, a state.Attachment) (lacks []Lack, err error) {
	ns, err := w.Namespace()
	if err != nil {
		return nil, err
	}
	recorded, err := onrecord.ReadStatus(a)
	if err != nil {
		return nil, err
	}
	present, routes, err := kernel.Look(ns)
	if err != nil {
		return nil, err
	}
	for _, gateway := range inspect.LostGateways(a, recorded.Gateways, routes, present) {
		lacks = append(lacks, Lack{fmt.Sprintf("default route via %s of %s", gateway, a.Interface), func() error { return ns.AddDefaultRoute(gateway, a.Interface) }})
	}
	return lacks, nil
}
