// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// NewInterfaces stands for the interfaces that a namespace will get.
const NewInterfaces = "default"

// advertisedMetric is that of the default routes of router advertisements on interfaces
// that accept them: any other default route, which has 1024, is preferred.
const advertisedMetric = 2048

// SetAcceptRA has an interface, or NewInterfaces, accept IPv6 router advertisements or
// ignore them. An interface that ignores them loses the routes and addresses that it got
// from earlier ones, except from one that the kernel is processing at that instant. An
// interface without IPv6 has neither.
func (n *Namespace) SetAcceptRA(iface string, accept bool) error {
	if err := n.RestoreAcceptRA(iface, accept); err != nil || accept || iface == NewInterfaces {
		return err
	}
	if err := removeAdvertised(n.link, iface); err != nil {
		return fmt.Errorf("remove from %s in %s what router advertisements gave it: %w", iface, n.path, err)
	}
	return nil
}

// RestoreAcceptRA is SetAcceptRA for an interface that is in use: it keeps its addresses and routes.
// Some that a program has set, as a client of DHCPv6, look like those of advertisements.
func (n *Namespace) RestoreAcceptRA(iface string, accept bool) error {
	if err := withParameters(n, func(s *sysctl.Tree) error { return writeAcceptRA(s, "net/ipv6/conf/"+iface, accept) }); err != nil {
		return fmt.Errorf("set accept_ra of %s in %s: %w", iface, n.path, err)
	}
	return nil
}

// AcceptsRA tells whether an interface is set as SetAcceptRA sets it, to accept router
// advertisements or to ignore them. One without IPv6, or that is missing, is.
func (n *Namespace) AcceptsRA(iface string, accept bool) (is bool, err error) {
	wanted := "0"
	if accept {
		wanted = accepting
	}
	err = withParameters(n, func(s *sysctl.Tree) error {
		present, err := s.Get(acceptRAOf(iface))
		is = present == wanted || errors.Is(err, fs.ErrNotExist)
		return files.UnlessMissing(err)
	})
	if err != nil {
		return false, fmt.Errorf("read accept_ra of %s in %s: %w", iface, n.path, err)
	}
	return is, nil
}

// accepting is accept_ra of interfaces that accept router advertisements: 1 would depend on
// forwarding.
const accepting = "2"

// writeAcceptRA sets the parameters of an interface. It has none where IPv6 is off, and Linux
// before 5.12 has no metric.
func writeAcceptRA(s *sysctl.Tree, parameters string, accept bool) error {
	if !accept {
		return setExisting(s, parameters+"/accept_ra", "0")
	}
	return errors.Join(
		setExisting(s, parameters+"/ra_defrtr_metric", fmt.Sprint(advertisedMetric)),
		setExisting(s, parameters+"/accept_ra", accepting),
	)
}

// removeAdvertised removes the routes and addresses that router advertisements gave to
// an interface. A missing interface has none.
func removeAdvertised(h *netlink.Handle, iface string) error {
	link, err := h.LinkByName(iface)
	if missingLink(err) {
		return nil
	}
	if err != nil {
		return err
	}
	prefixes, err := removeAdvertisedAddresses(h, link)
	if err != nil {
		return err
	}
	return removeAdvertisedRoutes(h, link, prefixes)
}

// removeAdvertisedAddresses returns the prefixes that no address has any more.
func removeAdvertisedAddresses(h *netlink.Handle, link netlink.Link) (prefixes []string, err error) {
	addresses, err := Whole(func() ([]netlink.Addr, error) { return h.AddrList(link, netlink.FAMILY_V6) })
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, a := range addresses {
		prefix := (&net.IPNet{IP: a.IP.Mask(a.Mask), Mask: a.Mask}).String()
		if a.Flags&unix.IFA_F_PERMANENT != 0 || a.Scope != unix.RT_SCOPE_UNIVERSE {
			kept = append(kept, prefix)
			continue
		}
		prefixes = append(prefixes, prefix)
		if err := h.AddrDel(link, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return nil, err
		}
	}
	return slices.DeleteFunc(prefixes, func(p string) bool { return slices.Contains(kept, p) }), nil
}

// removeAdvertisedRoutes removes the routes of an interface that advertisements gave it,
// and those that the kernel made for prefixes.
func removeAdvertisedRoutes(h *netlink.Handle, link netlink.Link, prefixes []string) error {
	filter := &netlink.Route{LinkIndex: link.Attrs().Index}
	routes, err := Whole(func() ([]netlink.Route, error) {
		return h.RouteListFiltered(netlink.FAMILY_V6, filter, netlink.RT_FILTER_OIF)
	})
	if err != nil {
		return err
	}
	for _, r := range routes {
		ofPrefix := r.Protocol == unix.RTPROT_KERNEL && r.Dst != nil && slices.Contains(prefixes, r.Dst.String())
		if r.Protocol != unix.RTPROT_RA && !ofPrefix {
			continue
		}
		if err := h.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// notAdvertised are flags that no address has which a router advertisement has given, and that can be used for as long as it is advertised.
const notAdvertised = unix.IFA_F_PERMANENT | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_TEMPORARY

// maxAdvertised is how many addresses a link has by router advertisements (max_addresses).
const maxAdvertised = 16

// advertisedLength is the length of prefixes from which interfaces give themselves addresses.
const advertisedLength = 64

// advertisedAddresses returns those of a link that router advertisements have given it, the first ones if there are more than the kernel
// makes.
func advertisedAddresses(all []netlink.Addr, index int) []netip.Prefix {
	var given []netlink.Addr
	for _, a := range all {
		if a.LinkIndex == index && a.Flags&notAdvertised == 0 && a.IP.To4() == nil {
			given = append(given, a)
		}
	}
	list := slices.DeleteFunc(globalAddresses(given, index), func(p netip.Prefix) bool { return p.Bits() != advertisedLength })
	return list[:min(len(list), maxAdvertised)]
}
