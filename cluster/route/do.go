// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

// do makes a change. What is to be removed and is not there is no error, and what is to be added
// never replaces what has come since the list was made.
func (s *socket) do(c change) error {
	var err error
	switch o := c.object.(type) {
	case *guard:
		err = s.doGuard(c.verb, o)
	case device:
		err = s.doDevice(c.verb, o)
	case entry:
		err = s.doRoute(c.verb, o)
	case neighbour:
		err = s.doNeighbour(c.verb, o.device, netlink.Neigh{IP: o.address.AsSlice()}, o.mac)
	case forward:
		n := netlink.Neigh{Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF}
		if o.to.IsValid() {
			n.IP = o.to.AsSlice()
		}
		err = s.doNeighbour(c.verb, o.device, n, o.mac)
	}
	if c.verb == remove && isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// isGone is the kernel's answer for what does not exist.
func isGone(err error) bool {
	_, missing := errors.AsType[netlink.LinkNotFoundError](err)
	return missing || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}

func (s *socket) doRoute(v verb, e entry) error {
	r, err := e.route(s.indexes)
	if err != nil {
		return err
	}
	switch v {
	case add:
		return s.RouteAdd(r)
	case replace:
		if old, ok := s.present[e.place()]; ok && !old.odd && e.canBeBeside(old) {
			return s.succeed(old, r)
		}
		return s.RouteChange(r)
	}
	return s.RouteDel(r)
}

// canBeBeside is whether the kernel takes both routes. IPv6 refuses a second one with the same next hop.
func (e entry) canBeBeside(old entry) bool {
	return e.prefix.Addr().Is4() || e.via != old.via || e.device != old.device
}

// succeed puts a route in the place of another one of ours. The kernel would replace any route there, also one
// that another program has made since the list. So the new one is appended, and used alone as soon as the old one
// is gone, which is known by its protocol and next hop.
func (s *socket) succeed(old entry, r *netlink.Route) error {
	before, err := old.route(s.indexes)
	if err != nil {
		return err
	}
	if err := s.RouteAppend(r); err != nil {
		return err
	}
	err = s.RouteDel(before)
	if err != nil && !isGone(err) {
		return err
	}
	if r.Dst.IP.To4() == nil && (err != nil || !s.isAlone(r)) {
		err = s.RouteDel(r)
	}
	if isGone(err) {
		return nil
	}
	return err
}

// isAlone is whether a route of IPv6 is not beside one of another program, which the kernel would use as well. It
// shows both as one route with the protocol of either. A narrower route says nothing of that.
func (s *socket) isAlone(r *netlink.Route) bool {
	found, err := s.RouteGetWithOptions(r.Dst.IP, &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil {
		return true
	}
	return !slices.ContainsFunc(found, func(f netlink.Route) bool {
		return f.Dst != nil && f.Dst.String() == r.Dst.String() && (f.Protocol != Protocol || len(f.MultiPath) > 1)
	})
}

func (s *socket) doNeighbour(v verb, device string, n netlink.Neigh, mac string) error {
	index, ok := s.indexes[device]
	if !ok {
		return fmt.Errorf("interface %q: %w", device, unix.ENODEV)
	}
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	n.LinkIndex, n.HardwareAddr, n.State = index, hardware, netlink.NUD_PERMANENT
	if v == remove {
		return s.NeighDel(&n)
	}
	return s.NeighSet(&n) // one that the kernel has learned is in the way of an addition
}

// noAddress is addr_gen_mode: the kernel makes no link-local address by itself, because the
// one that belongs to the MAC has to be there at once.
const noAddress = "1"

// inDevice is the IPv4 address of all devices. No packet has it: it is of scope link, and one of those
// that hosts do not choose (RFC 3927, 2.1).
var inDevice = netip.AddrFrom4([4]byte{169, 254, 0, Protocol})

func (s *socket) doDevice(v verb, d device) error {
	switch v {
	case add:
		return s.addDevice(d)
	case replace:
		return s.repairDevice(d)
	}
	l, err := s.LinkByName(d.name)
	if err != nil {
		return err
	}
	delete(s.indexes, d.name)
	return s.LinkDel(l)
}

func (s *socket) addDevice(d device) error {
	attrs := netlink.NewLinkAttrs()
	mac, err := net.ParseMAC(d.mac)
	if err != nil {
		return err
	}
	attrs.Name, attrs.HardwareAddr, attrs.MTU, attrs.Group = d.name, mac, d.mtu, netns.LinkGroup
	if err := s.LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: d.id, Port: d.port, SrcAddr: d.local.AsSlice()}); err != nil {
		return fmt.Errorf("VXLAN %d, port %d, from %s: %w", d.id, d.port, d.local, err)
	}
	return nil
}

// repairDevice makes of a device what it should be. It changes only what is wrong: a device that
// gets its own MAC once more loses its neighbours.
func (s *socket) repairDevice(d device) error {
	l, err := s.LinkByName(d.name)
	if err != nil {
		return err
	}
	s.indexes[d.name], s.names[l.Attrs().Index] = l.Attrs().Index, d.name
	have := linkOf(l)
	s.readParameters(&have)
	d = have.possible(d)
	mac, err := net.ParseMAC(d.mac)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		right bool
		do    func() error
	}{
		{have.alias == d.alias, func() error { return s.LinkSetAlias(l, d.alias) }},
		{have.mac == d.mac, func() error { return s.LinkSetHardwareAddr(l, mac) }},
		{have.mtu == d.mtu, func() error { return s.LinkSetMTU(l, d.mtu) }},
		{have.tuned && have.ipv6 == d.ipv6, func() error { return s.tune(d.name, d.ipv6) }},
		{!d.ipv6, func() error { return s.parameters.Set("net/ipv6/conf/"+d.name+"/addr_gen_mode", noAddress) }},
		{have.ipv6 == d.ipv6, func() error { return s.parameters.Set(ipv6Off(d.name), "0") }},
		{have.up, func() error { return s.LinkSetUp(l) }},
		{!d.ipv6, func() error { return s.setAddress(l, d.linkLocal, 64) }},
		{false, func() error { return s.setAddress(l, inDevice, 32) }},
	} {
		if step.right {
			continue
		}
		if err := step.do(); err != nil {
			return err
		}
	}
	return nil
}

// setAddress adds an address that is not known beyond the device.
func (s *socket) setAddress(l netlink.Link, a netip.Addr, bits int) error {
	to := &netlink.Addr{IPNet: netns.IPNet(netip.PrefixFrom(a, bits)), Scope: unix.RT_SCOPE_LINK}
	if a.Is6() {
		to.Flags = unix.IFA_F_NODAD
	}
	return s.AddrReplace(l, to)
}
