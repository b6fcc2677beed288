// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Interface is a network interface of a namespace.
type Interface struct {
	Name string
	// AlternativeNames are further ones, by which programs find it too.
	AlternativeNames []string
	// Alias is a note, in which the plugin host-device keeps the name on the host.
	Alias string
	MAC   string
	// Kind is the kernel's, such as veth; that of hardware is device.
	Kind string
	MTU  int
	Up   bool
	// Addresses are those of scope global, IPv4 first, each family in order.
	Addresses []netip.Prefix
	// Advertised are those of them that it has by router advertisements, as the kernel makes them of its MAC or a secret: neither
	// temporary ones nor those that are still searched for duplicates. A program inside can add others that look like them.
	Advertised []netip.Prefix
	// Published are those of them that Publish has added, if it is of the caller's namespace: they are for the ports of one allocation.
	Published []netip.Addr
	// Link is the index of its master or its peer; 0 if it has none.
	Link int
	// LinkOutside is whether that is in another namespace.
	LinkOutside bool
	// Index is the kernel's, and Master that of the bridge or the like of which it is a port; 0 if it
	// is none.
	Index, Master int
	// Group is the kernel's. That of links is LinkGroup if allocnet made them with names that tell nothing of it.
	Group uint32
	// Received and Sent count bytes.
	Received, Sent uint64
}

// Index returns where an interface is in a list; -1 if it has none of the name.
func Index(list []Interface, name string) int {
	return slices.IndexFunc(list, func(i Interface) bool { return i.Name == name })
}

// IsNamed tells whether the interface has a name, as its own or as an alternative one: a configuration may have either.
func (i Interface) IsNamed(name string) bool {
	return i.Name == name || slices.Contains(i.AlternativeNames, name)
}

// Interfaces returns the namespace's interfaces, sorted by name.
func (n *Namespace) Interfaces() ([]Interface, error) {
	links, err := Whole(n.link.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces of %s: %w", n.path, err)
	}
	addresses, err := Whole(func() ([]netlink.Addr, error) { return n.link.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses of %s: %w", n.path, err)
	}
	byName := make(map[string]netlink.Link, len(links))
	for _, link := range links {
		byName[link.Attrs().Name] = link
	}
	var list []Interface
	for _, name := range slices.Sorted(maps.Keys(byName)) { // a sort of interfaces would be 20 KB of the plugin
		list = append(list, interfaceOf(byName[name], addresses))
	}
	return list, nil
}

// interfaceOf returns a link with those of the addresses that it has.
func interfaceOf(link netlink.Link, addresses []netlink.Addr) Interface {
	attrs := link.Attrs()
	i := Interface{
		Name: attrs.Name, AlternativeNames: attrs.AltNames, Alias: attrs.Alias, MAC: attrs.HardwareAddr.String(), Kind: link.Type(), MTU: attrs.MTU,
		Up: attrs.Flags&net.FlagUp != 0, Addresses: globalAddresses(addresses, attrs.Index), Advertised: advertisedAddresses(addresses, attrs.Index),
		Link: attrs.ParentIndex, LinkOutside: attrs.NetNsID >= 0, Index: attrs.Index, Master: attrs.MasterIndex, Group: attrs.Group,
	}
	if attrs.Statistics != nil {
		i.Received, i.Sent = attrs.Statistics.RxBytes, attrs.Statistics.TxBytes
	}
	return i
}

func globalAddresses(all []netlink.Addr, index int) []netip.Prefix {
	var list []netip.Prefix
	for _, a := range all {
		if a.LinkIndex != index || a.Scope != unix.RT_SCOPE_UNIVERSE || a.IPNet == nil {
			continue
		}
		if address, ok := netip.AddrFromSlice(a.IP); ok {
			ones, _ := a.Mask.Size()
			list = append(list, netip.PrefixFrom(address.Unmap(), ones))
		}
	}
	slices.SortStableFunc(list, netip.Prefix.Compare) // orders IPv4 before IPv6
	return list
}

// OfFamily returns the routes by gateways of a family.
func OfFamily(routes []Route, v6 bool) []Route {
	var found []Route
	for _, r := range routes {
		if r.Gateway.IsValid() && r.Gateway.Is6() == v6 {
			found = append(found, r)
		}
	}
	return found
}

// Route is a default route, or one path of it.
type Route struct {
	Interface string `json:"interface"`
	// Gateway is invalid for a route without one.
	Gateway netip.Addr `json:"gateway"`
}

// DefaultRoutes returns the default routes of the main table, IPv4 first, in
// the kernel's order, except those of router advertisements that SetAcceptRA accepts:
// they come and go, and every other one is preferred.
func (n *Namespace) DefaultRoutes() ([]Route, error) {
	var list []Route
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := defaultRoutes(n, family)
		if err != nil {
			return nil, err
		}
		for _, hop := range nextHops(routes) {
			link, err := n.link.LinkByIndex(hop.LinkIndex)
			if err != nil {
				return nil, fmt.Errorf("find the interface of a default route of %s: %w", n.path, err)
			}
			gateway, _ := netip.AddrFromSlice(hop.Gw)
			list = append(list, Route{link.Attrs().Name, gateway.Unmap()})
		}
	}
	return list, nil
}

// nextHops resolves multipath routes, which IPv6 makes of two default routes.
func nextHops(routes []netlink.Route) []netlink.NexthopInfo {
	var hops []netlink.NexthopInfo
	for _, r := range routes {
		if len(r.MultiPath) == 0 {
			hops = append(hops, netlink.NexthopInfo{LinkIndex: r.LinkIndex, Gw: r.Gw})
		}
		for _, hop := range r.MultiPath {
			hops = append(hops, *hop)
		}
	}
	return hops
}

func defaultRoutes(n *Namespace, family int) ([]netlink.Route, error) {
	routes, err := Routes(n.link, family, netlink.Route{Table: unix.RT_TABLE_MAIN}, 0, func(r netlink.Route) bool {
		return (r.Protocol != unix.RTPROT_RA || r.Priority != advertisedMetric) && tableRoute(r, family).Destination == all(family)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes of %s: %w", n.path, err)
	}
	return routes, nil
}

// SetDefaultRoute makes the route through a gateway on an interface the only default
// route of its address family. It is safe to repeat.
func (n *Namespace) SetDefaultRoute(gateway netip.Addr, iface string) error {
	return makeDefaultRoute(n, gateway, iface, func(present []netlink.Route) error {
		// The previous routes are removed first: the kernel has one route for each
		// destination and metric. Setup rolls back when adding the new one fails.
		for _, old := range present {
			if err := n.link.RouteDel(&old); err != nil {
				return fmt.Errorf("remove the previous route: %w", err)
			}
		}
		return nil
	})
}

// AddDefaultRoute makes the route through a gateway on an interface, and fails if its family has
// any default route: which of two is right another program may know.
func (n *Namespace) AddDefaultRoute(gateway netip.Addr, iface string) error {
	return makeDefaultRoute(n, gateway, iface, func(present []netlink.Route) error {
		if len(present) == 0 {
			return nil
		}
		other := nextHops(present)[0]
		link, err := n.link.LinkByIndex(other.LinkIndex)
		if err != nil {
			return fmt.Errorf("find the interface of another default route: %w", err)
		}
		text := "dev " + link.Attrs().Name
		if other.Gw != nil {
			text = "via " + other.Gw.String() + " " + text
		}
		return fmt.Errorf("it is missing, and there is another one, %s: remove one of them", text)
	})
}

// RemoveDefaultRoutes removes the default routes of a family through gateways on an interface. Those
// of other interfaces stay.
func (n *Namespace) RemoveDefaultRoutes(iface string, v6 bool) error {
	family := netlink.FAMILY_V4
	if v6 {
		family = netlink.FAMILY_V6
	}
	link, err := n.link.LinkByName(iface)
	if err != nil {
		return fmt.Errorf("find %s of %s: %w", iface, n.path, err)
	}
	present, err := defaultRoutes(n, family)
	if err != nil {
		return err
	}
	for _, r := range present {
		for _, hop := range nextHops([]netlink.Route{r}) {
			if hop.LinkIndex != link.Attrs().Index || hop.Gw == nil {
				continue
			}
			removed := &netlink.Route{LinkIndex: hop.LinkIndex, Dst: IPNet(all(family)), Gw: hop.Gw, Priority: r.Priority, Table: unix.RT_TABLE_MAIN}
			if err := n.link.RouteDel(removed); err != nil {
				return fmt.Errorf("remove the default route via %s dev %s: %w", hop.Gw, iface, err)
			}
		}
	}
	return nil
}

// makeDefaultRoute adds a default route, unless something is wrong with those that there are.
func makeDefaultRoute(n *Namespace, gateway netip.Addr, iface string, prepare func(present []netlink.Route) error) error {
	family := familyOf(gateway)
	link, err := n.link.LinkByName(iface)
	if err == nil {
		var present []netlink.Route
		if present, err = defaultRoutes(n, family); err == nil {
			err = prepare(present)
		}
	}
	if err == nil {
		err = n.link.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: IPNet(all(family)), Gw: gateway.AsSlice()})
	}
	if err != nil {
		return fmt.Errorf("default route via %s dev %s: %w", gateway, iface, err)
	}
	return nil
}

// LinkMAC returns the MAC of a link in the caller's namespace; ok is false when there is none of that name.
func LinkMAC(name string) (mac string, ok bool, err error) {
	link, err := linkNamed(name)
	if err != nil || link == nil {
		return "", false, err
	}
	return link.Attrs().HardwareAddr.String(), true, nil
}

// OwnInterfaces returns the interfaces of the caller's namespace, sorted by name.
func OwnInterfaces() ([]Interface, error) {
	list, err := (&Namespace{path: "this network namespace", link: &netlink.Handle{}}).Interfaces()
	if err != nil {
		return nil, err
	}
	all, err := heldAddresses()
	for _, h := range all {
		at := slices.IndexFunc(list, func(i Interface) bool { return i.Index == h.LinkIndex })
		if address, ok := netip.AddrFromSlice(h.IP); ok && h.published && at >= 0 {
			list[at].Published = append(list[at].Published, address.Unmap())
		}
	}
	return list, err
}

// OwnAddressed returns those interfaces of the caller's namespace that have addresses of subnets of scope global: a host may have
// thousands of ends of pairs, which have none, or each the address of a gateway alone.
func OwnAddressed() (list []Interface, err error) {
	addresses, err := ownAddresses()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		ones, bits := a.Mask.Size()
		if a.Scope != unix.RT_SCOPE_UNIVERSE || ones == bits || slices.ContainsFunc(list, func(i Interface) bool { return i.Index == a.LinkIndex }) {
			continue
		}
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if missingLink(err) { // meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get a link that has an address: %w", err)
		}
		list = append(list, interfaceOf(link, addresses))
	}
	return list, nil
}

func ownAddresses() ([]netlink.Addr, error) {
	all, err := ofCaller.get()
	if err != nil {
		return nil, fmt.Errorf("list addresses of this network namespace: %w", err)
	}
	return all, nil
}

// OwnHolder returns the first of the addresses that a link in the caller's namespace has, and the name of that link; empty if
// none has one. Addresses of one link alone are left out.
func OwnHolder(addresses []netip.Addr) (held netip.Addr, link string, err error) {
	all, err := ownAddresses()
	if err != nil {
		return netip.Addr{}, "", err
	}
	for _, a := range all {
		address, _ := netip.AddrFromSlice(a.IP)
		if a.Scope != unix.RT_SCOPE_UNIVERSE || !slices.Contains(addresses, address.Unmap()) {
			continue
		}
		holder, err := netlink.LinkByIndex(a.LinkIndex)
		if missingLink(err) {
			continue
		}
		if err != nil {
			return netip.Addr{}, "", fmt.Errorf("get the link that has %s: %w", address, err)
		}
		return address.Unmap(), holder.Attrs().Name, nil
	}
	return netip.Addr{}, "", nil
}

// MayHold tells whether a link in the caller's namespace may have an address, without a list of all: that grows with the host. It
// does not see IPv4 addresses in a VRF; OwnHolder does.
func MayHold(address netip.Addr) bool {
	if address.Is4() {
		routes, err := netlink.RouteGet(address.AsSlice())
		return err != nil && !errors.Is(err, unix.ENETUNREACH) || len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
	}
	// There is no route to an address before duplicate address detection has ended.
	r := nl.NewNetlinkRequest(unix.RTM_GETADDR, 0)
	r.AddData(nl.NewIfAddrmsg(unix.AF_INET6))
	r.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, address.AsSlice()))
	_, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	return !errors.Is(err, unix.EADDRNOTAVAIL)
}

// OwnsAddress tells whether the kernel takes packets to an address for the caller's namespace: as its own, or by a route of type local.
func OwnsAddress(address netip.Addr) bool {
	routes, err := netlink.RouteGet(address.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
}
