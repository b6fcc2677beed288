// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// host is the kernel of the caller's network namespace.
type host struct{}

type socket struct {
	*netlink.Handle
	parameters sysctl.Tree
	// links are the interfaces that were listed, indexes their indexes by name, and names the other way round.
	links   map[string]*link
	indexes map[string]int
	names   map[int]string
	// present are the first routes of ours that were listed.
	present map[place]entry
}

func (host) open() (session, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	return &socket{Handle: h}, nil
}

func (s *socket) close() {
	s.Close()
}

func (s *socket) list(device string) (*snapshot, error) {
	var found snapshot
	for _, read := range []func(*snapshot, string) error{s.listLinks, s.listAddresses, s.listRoutes, s.listNeighbours, s.listGuards} {
		if err := read(&found, device); err != nil {
			return nil, err
		}
	}
	return &found, nil
}

func (s *socket) listLinks(to *snapshot, name string) error {
	links, err := netns.Whole(s.LinkList)
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	s.links, s.indexes, s.names = map[string]*link{}, map[string]int{}, map[int]string{}
	for _, l := range links {
		to.links = append(to.links, linkOf(l))
	}
	for i := range to.links {
		l := &to.links[i]
		s.links[l.name], s.indexes[l.name], s.names[l.index] = l, l.index, l.name
	}
	if l := s.links[name]; l != nil && l.kind == "vxlan" {
		s.readParameters(l)
	}
	return nil
}

func linkOf(l netlink.Link) link {
	a := l.Attrs()
	found := link{index: a.Index, kind: l.Type(), hasEnd: a.RawFlags&(unix.IFF_POINTOPOINT|unix.IFF_NOARP) != 0, device: device{
		name: a.Name, alias: a.Alias, mac: a.HardwareAddr.String(), mtu: a.MTU, up: a.Flags&net.FlagUp != 0,
	}}
	if v, ok := l.(*netlink.Vxlan); ok {
		found.id, found.port, found.local = v.VxlanId, v.Port, addressOf(v.SrcAddr)
		found.flooding = v.Learning || v.FlowBased || v.GBP || v.VtepDevIndex != 0 || len(v.Group) > 0
	}
	return found
}

// readParameters reads what netlink does not tell of a device.
func (s *socket) readParameters(l *link) {
	off, err := s.parameters.Get(ipv6Off(l.name))
	l.noIPv6, l.ipv6 = err != nil, off == "0"
	l.tuned = s.isTuned(l.name, l.ipv6)
}

func (s *socket) listAddresses(to *snapshot, device string) error {
	all, err := netns.Whole(func() ([]netlink.Addr, error) { return s.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range all {
		own := address{addressOf(a.IP), s.names[a.LinkIndex], a.Scope == unix.RT_SCOPE_UNIVERSE && a.Flags&fleeting == 0}
		to.addresses = append(to.addresses, own)
		if l := s.links[device]; l != nil && own.device == device {
			l.note(own.Addr)
		}
	}
	return nil
}

func (l *link) note(a netip.Addr) {
	switch a {
	case linkLocalOf(l.mac):
		l.linkLocal = a
	case inDevice:
		l.hasIPv4 = true
	}
}

// fleeting are the flags of addresses that are not used for new connections, or not for long.
const fleeting = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_DEPRECATED

func addressOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

func (s *socket) listNeighbours(to *snapshot, device string) error {
	l := s.links[device]
	if l == nil || l.kind != "vxlan" {
		return nil
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6, unix.AF_BRIDGE} {
		list, err := netns.Whole(func() ([]netlink.Neigh, error) { return s.NeighList(l.index, family) })
		if isOff(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list neighbours of %s: %w", device, err)
		}
		for _, n := range list {
			to.addNeighbour(n, device)
		}
	}
	return nil
}

// addNeighbour leaves out what the kernel has learned by itself.
func (to *snapshot) addNeighbour(n netlink.Neigh, device string) {
	switch {
	case n.State&netlink.NUD_PERMANENT == 0 || n.Flags&netlink.NTF_PROXY != 0:
	case n.Family == unix.AF_BRIDGE:
		to.forwards = append(to.forwards, forward{device, n.HardwareAddr.String(), addressOf(n.IP)})
	default:
		to.neighbours = append(to.neighbours, neighbour{device, addressOf(n.IP), n.HardwareAddr.String()})
	}
}

// isOff is the answer of a kernel without the family.
func isOff(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

func (s *socket) lookup(a netip.Addr) (hop, error) {
	routes, err := s.RouteGet(a.AsSlice())
	if err != nil {
		return hop{}, err
	}
	if len(routes) != 1 || routes[0].Type != unix.RTN_UNICAST {
		return hop{}, fmt.Errorf("it is not unicast: %v", routes)
	}
	h := hop{device: s.names[routes[0].LinkIndex], gateway: addressOf(routes[0].Gw)}
	if v, ok := routes[0].Via.(*netlink.Via); ok {
		h.gateway = addressOf(v.Addr)
	}
	return h, nil
}

type kernel interface {
	open() (session, error)
	// watch calls the function for each event until the context ends. It returns when it has
	// begun. Lost events are one of the kind lost.
	watch(ctx context.Context, seen func(event), ended func()) error
}

type session interface {
	// list returns what there is. Neighbours and forwarding are those of the named device.
	list(device string) (*snapshot, error)
	lookup(netip.Addr) (hop, error)
	do(change) error
	close()
}
