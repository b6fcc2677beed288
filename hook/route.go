// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// checkDefaultRoutes refuses two attachments that ask for the default route
// of one family. An empty list asks for both families.
func checkDefaultRoutes(elements []selection.Element) error {
	owner := map[bool]string{}
	for _, e := range elements {
		for _, v6 := range []bool{false, true} {
			if !asksDefaultRoute(e, v6) {
				continue
			}
			if other, taken := owner[v6]; taken {
				return &RequestError{"default-route", strings.Join(e.DefaultRoute, ","), fmt.Sprintf("interface %s asks for it already; want one for each of IPv4 and IPv6", other)}
			}
			owner[v6] = e.Interface
		}
	}
	return nil
}

func asksDefaultRoute(e selection.Element, v6 bool) bool {
	if e.DefaultRoute == nil {
		return false
	}
	return len(e.DefaultRoute) == 0 || slices.ContainsFunc(e.DefaultRoute, func(gateway string) bool {
		address, err := netip.ParseAddr(gateway)
		return err == nil && address.Is6() == v6
	})
}

// setDefaultRoutes leaves one default route for each family: the one that an
// attachment asks for, or else that of the first attachment that has one. The
// kernel would prefer the newest for IPv4 and spread IPv6 over all.
// It returns the default routes as they then are.
func (o *operation) setDefaultRoutes(ns *netns.Namespace, p *plan) ([]netns.Route, error) {
	for i, element := range p.elements {
		if element.DefaultRoute == nil {
			continue
		}
		a := o.record.Attachments[i]
		gateways, err := wantedGateways(element, a)
		if err != nil {
			return nil, o.failure("attach", a, a.Tries, err)
		}
		for _, gateway := range gateways {
			if err := o.setDefaultRoute(ns, i, gateway); err != nil {
				return nil, err
			}
		}
	}
	routes, err := ns.DefaultRoutes()
	if err != nil {
		return nil, err
	}
	settled, err := o.settleDefaultRoutes(ns, routes)
	if err != nil || !settled {
		return routes, err
	}
	return ns.DefaultRoutes()
}

// settleDefaultRoutes decides where several attachments brought a default
// route and none asked for it. It tells whether there was anything to decide.
func (o *operation) settleDefaultRoutes(ns *netns.Namespace, routes []netns.Route) (settled bool, err error) {
	for _, v6 := range []bool{false, true} {
		var ofFamily []netns.Route
		for _, r := range routes {
			if r.Gateway.IsValid() && r.Gateway.Is6() == v6 {
				ofFamily = append(ofFamily, r)
			}
		}
		i, gateway, ok := o.firstWith(ofFamily)
		if len(ofFamily) < 2 || !ok {
			continue
		}
		settled = true
		if err := o.setDefaultRoute(ns, i, gateway); err != nil {
			return settled, err
		}
	}
	return settled, nil
}

// firstWith returns the first attachment that has one of the routes.
func (o *operation) firstWith(routes []netns.Route) (index int, gateway netip.Addr, ok bool) {
	for i, a := range o.record.Attachments {
		for _, r := range routes {
			if r.Interface == a.Interface {
				return i, r.Gateway, true
			}
		}
	}
	return 0, netip.Addr{}, false
}

func (o *operation) setDefaultRoute(ns *netns.Namespace, owner int, gateway netip.Addr) error {
	a := o.record.Attachments[owner]
	if err := ns.SetDefaultRoute(gateway, a.Interface); err != nil {
		return o.failure("attach", a, a.Tries, err)
	}
	if err := o.recordDefaultRoute(owner, gateway); err != nil {
		return o.failure("attach", a, a.Tries, err)
	}
	return nil
}

// wantedGateways returns the gateways that the element names, or else those
// that its plugins reported.
func wantedGateways(e selection.Element, a state.Attachment) ([]netip.Addr, error) {
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
	result, err := parseResult(a.Result)
	if err != nil {
		return nil, err
	}
	for _, v6 := range []bool{false, true} {
		if gateway, ok := gatewayOf(result, v6); ok {
			gateways = append(gateways, gateway)
		}
	}
	if len(gateways) == 0 {
		return nil, fmt.Errorf("default-route: the network reports no gateway: name one, as in \"default-route\": [\"10.1.0.1\"]")
	}
	return gateways, nil
}

// recordDefaultRoute writes the moved route into the results, and into libcni's
// cache: CHECK compares the namespace with what stands there.
func (o *operation) recordDefaultRoute(owner int, gateway netip.Addr) error {
	for i := range o.record.Attachments {
		a := &o.record.Attachments[i]
		list, err := cniconf.ParseList(a.ConfList)
		if err != nil {
			return err
		}
		result, err := parseResult(a.Result)
		if err != nil {
			return err
		}
		before := len(result.Routes)
		result.Routes = slices.DeleteFunc(result.Routes, func(r *types.Route) bool {
			return isDefault(r) && (r.Dst.IP.To4() == nil) == gateway.Is6()
		})
		if i == owner {
			result.Routes = append(result.Routes, defaultRoute(gateway))
		} else if len(result.Routes) == before {
			continue
		}
		if err := o.replaceResult(a, result, list.CNIVersion); err != nil {
			return err
		}
	}
	return nil
}

func (o *operation) replaceResult(a *state.Attachment, result *types100.Result, cniVersion string) error {
	encoded, err := encodeResult(result, cniVersion)
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
