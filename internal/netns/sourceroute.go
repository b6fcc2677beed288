// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// SourceRoutes are a routing table for packets from the addresses of an interface, with a
// rule for each address.
type SourceRoutes struct {
	// Table is the number of the table, and the priority of the rules.
	Table     int          `json:"table"`
	Interface string       `json:"interface"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Routes have those without a gateway first.
	Routes []TableRoute `json:"routes,omitempty"`
}

// TableRoute is a route through the interface of a table.
type TableRoute struct {
	Destination netip.Prefix `json:"destination"`
	// Gateway is invalid where the destination is on the link.
	Gateway netip.Addr `json:"gateway"`
}

// UsedTables returns the numbers of tables with routes or rules, and the priorities of
// rules.
func (n *Namespace) UsedTables() (map[int]bool, error) {
	used := map[int]bool{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := rulesOf(n, family)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			used[r.Table], used[r.Priority] = true, true
		}
		routes, err := routesOf(n, family, unix.RT_TABLE_UNSPEC)
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			used[r.Table] = true
		}
	}
	return used, nil
}

// rulesOf returns the routing rules of a family; none where the family is off.
func rulesOf(n *Namespace, family int) ([]netlink.Rule, error) {
	rules, err := Whole(func() ([]netlink.Rule, error) { return n.link.RuleList(family) })
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list routing rules of %s: %w", n.path, err)
	}
	return rules, nil
}

// routesOf returns the routes of a table; RT_TABLE_UNSPEC stands for all tables.
func routesOf(n *Namespace, family, table int) ([]netlink.Route, error) {
	routes, err := Routes(n.link, family, netlink.Route{Table: table}, 0, nil)
	if err != nil {
		return nil, fmt.Errorf("list routes of %s: %w", n.path, err)
	}
	return routes, nil
}

// RoutesOf returns the routes of the main table through an interface, those without a
// gateway first, except link-local ones and those of router advertisements.
func (n *Namespace) RoutesOf(iface string) ([]TableRoute, error) {
	link, err := n.link.LinkByName(iface)
	if err != nil {
		return nil, fmt.Errorf("find %s in %s: %w", iface, n.path, err)
	}
	var direct, others []TableRoute
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := routesOf(n, family, unix.RT_TABLE_MAIN)
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			if r.LinkIndex != link.Attrs().Index || r.Protocol == unix.RTPROT_RA {
				continue
			}
			switch t := tableRoute(r, family); {
			case t.Destination.Addr().IsLinkLocalUnicast() || t.Destination.Addr().IsMulticast():
			case t.Gateway.IsValid():
				others = append(others, t)
			default:
				direct = append(direct, t)
			}
		}
	}
	return append(direct, others...), nil
}

func tableRoute(r netlink.Route, family int) TableRoute {
	t := TableRoute{Destination: Destination(r, family)}
	if gateway, ok := netip.AddrFromSlice(r.Gw); ok {
		t.Gateway = gateway.Unmap()
	}
	return t
}

// Destination returns that of a route of a family: older versions of the library have none for a default route.
func Destination(r netlink.Route, family int) netip.Prefix {
	address, ok := addressOf(r.Dst)
	if !ok {
		return all(family)
	}
	ones, _ := r.Dst.Mask.Size()
	return netip.PrefixFrom(address, ones)
}

// all is the prefix of all addresses of a family.
func all(family int) netip.Prefix {
	if family == netlink.FAMILY_V6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

func addressOf(network *net.IPNet) (netip.Addr, bool) {
	if network == nil {
		return netip.Addr{}, false
	}
	address, ok := netip.AddrFromSlice(network.IP)
	return address.Unmap(), ok
}

// AddSourceRoutes adds the routes, then the rules. It is safe to repeat.
func (n *Namespace) AddSourceRoutes(s SourceRoutes) error {
	link, err := n.link.LinkByName(s.Interface)
	if err != nil {
		return fmt.Errorf("find %s in %s: %w", s.Interface, n.path, err)
	}
	for _, r := range s.Routes {
		if err := n.link.RouteAdd(r.netlink(s.Table, link)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add to table %d of %s: %s: %w", s.Table, n.path, r, err)
		}
	}
	for _, address := range s.Addresses {
		if err := n.link.RuleAdd(s.rule(address)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add in %s: rule from %s to table %d: %w", n.path, address, s.Table, err)
		}
	}
	return nil
}

// RemoveSourceRoutes removes the rules, then the routes. Missing ones are no error: the
// kernel removes the routes of a table with their interface.
func (n *Namespace) RemoveSourceRoutes(s SourceRoutes) error {
	for _, address := range s.Addresses {
		err := n.link.RuleDel(s.rule(address))
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EAFNOSUPPORT) {
			return fmt.Errorf("remove from %s: rule from %s to table %d: %w", n.path, address, s.Table, err)
		}
	}
	link, err := n.link.LinkByName(s.Interface)
	if missingLink(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find %s in %s: %w", s.Interface, n.path, err)
	}
	for _, r := range s.Routes {
		if err := n.link.RouteDel(r.netlink(s.Table, link)); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove from table %d of %s: %s: %w", s.Table, n.path, r, err)
		}
	}
	return nil
}

// MissingSourceRoutes returns the rules and routes that are not there, as text.
func (n *Namespace) MissingSourceRoutes(s SourceRoutes) ([]string, error) {
	present := map[string]bool{}
	link, err := n.link.LinkByName(s.Interface)
	if err != nil && !missingLink(err) {
		return nil, fmt.Errorf("find %s in %s: %w", s.Interface, n.path, err)
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := rulesOf(n, family)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			if address, ok := addressOf(r.Src); ok && r.Table == s.Table && r.Priority == s.Table {
				present[s.ruleText(address)] = true
			}
		}
		routes, err := routesOf(n, family, s.Table)
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			if link != nil && r.LinkIndex == link.Attrs().Index {
				present[s.routeText(tableRoute(r, family))] = true
			}
		}
	}
	var missing []string
	for _, text := range s.texts() {
		if !present[text] {
			missing = append(missing, text)
		}
	}
	return missing, nil
}

func (s SourceRoutes) texts() []string {
	var all []string
	for _, address := range s.Addresses {
		all = append(all, s.ruleText(address))
	}
	for _, r := range s.Routes {
		all = append(all, s.routeText(r))
	}
	return all
}

func (s SourceRoutes) ruleText(address netip.Addr) string {
	return fmt.Sprintf("rule from %s to table %d", address, s.Table)
}

func (s SourceRoutes) routeText(r TableRoute) string {
	return fmt.Sprintf("route %s of table %d", r, s.Table)
}

func (s SourceRoutes) rule(address netip.Addr) *netlink.Rule {
	rule := netlink.NewRule()
	rule.Family, rule.Table, rule.Priority = familyOf(address), s.Table, s.Table
	rule.Src = IPNet(netip.PrefixFrom(address, address.BitLen()))
	return rule
}

func (r TableRoute) String() string {
	if !r.Gateway.IsValid() {
		return r.Destination.String()
	}
	return fmt.Sprintf("%s via %s", r.Destination, r.Gateway)
}

func (r TableRoute) netlink(table int, link netlink.Link) *netlink.Route {
	route := &netlink.Route{Table: table, LinkIndex: link.Attrs().Index, Dst: IPNet(r.Destination)}
	if r.Gateway.IsValid() {
		route.Gw = r.Gateway.AsSlice()
	} else if r.Destination.Addr().Is4() {
		route.Scope = netlink.SCOPE_LINK
	}
	return route
}

func familyOf(address netip.Addr) int {
	if address.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// IPNet returns an address with the length of its network, as package net has it.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
