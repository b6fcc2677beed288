// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// settings have the host answer, without a delay, who asks for a neighbour on a bridge with attachments that are apart. The last one
// tells whether all are made. The kernel's values are those of new links.
var settings = []struct{ key, routed string }{
	{"net/ipv6/neigh/%s/proxy_delay", "0"},
	{"net/ipv6/conf/%s/proxy_ndp", "1"},
	{"net/ipv4/neigh/%s/proxy_delay", "0"},
	{"net/ipv4/conf/%s/proxy_arp_pvlan", "1"},
}

const defaults = "default"

// isRouted tells whether the host answers for the neighbours on a bridge.
func isRouted(bridgeName string) bool {
	var s sysctl.Tree
	last := settings[len(settings)-1]
	value, err := s.Get(fmt.Sprintf(last.key, bridgeName))
	return err == nil && value == last.routed
}

// route makes what the bridges need, once the tables are there.
func (h *host) route() error {
	var failed error
	for _, bridgeName := range slices.Sorted(maps.Keys(h.bridges)) {
		if !h.bridges[bridgeName] {
			continue
		}
		var addresses []netip.Addr
		for i := range h.members {
			if h.members[i].Bridge == bridgeName {
				addresses = append(addresses, h.members[i].Addresses...)
			}
		}
		if err := checkPorts(bridgeName); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		failed = errors.Join(failed, setRouted(bridgeName, true), proxyMissing(bridgeName, addresses))
	}
	return failed
}

// unroute removes what the bridges do not need any more.
func (h *host) unroute(before map[netfilter.Family]*listing) (failed error) {
	for _, bridgeName := range before[netfilter.Bridge].bridges() {
		if h.bridges[bridgeName] {
			continue
		}
		failed = errors.Join(failed, unroute(bridgeName, before[netfilter.INet].membersOn(bridgeName)))
	}
	return failed
}

// proxyMissing has the host answer for addresses on a bridge for which it does not yet.
func proxyMissing(bridgeName string, addresses []netip.Addr) error {
	has, err := answered(bridgeName)
	if err != nil {
		return err
	}
	return proxy(bridgeName, slices.DeleteFunc(addresses, func(a netip.Addr) bool { return has[a] != nil }))
}

// checkPorts refuses a bridge with a port to other machines: the host would answer for these, too, and take their packets.
func checkPorts(bridgeName string) error {
	link, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("isolation: get link %s: %w", bridgeName, err)
	}
	ports, err := netns.PortsOf(link)
	if err != nil {
		return err
	}
	for _, port := range ports {
		if port.Type() != "veth" {
			return fmt.Errorf("isolation: the bridge %s has the port %s, of the kind %s, so the host cannot answer for its allocations: use level network, and neither rules egress nor jobs that narrow their traffic, or a bridge with ports of allocations only", bridgeName, port.Attrs().Name, port.Type())
		}
	}
	return nil
}

// setRouted makes the settings of a bridge, or those of a new link. A host without IPv6 has no such keys, and a bridge that is gone none.
func setRouted(bridgeName string, isOn bool) error {
	var s sysctl.Tree
	for _, setting := range settings {
		value := setting.routed
		if !isOn {
			var err error
			if value, err = s.Get(fmt.Sprintf(setting.key, defaults)); err != nil {
				continue
			}
		}
		key := fmt.Sprintf(setting.key, bridgeName)
		if now, err := s.Get(key); errors.Is(err, fs.ErrNotExist) || err == nil && now == value {
			continue
		}
		if err := s.Set(key, value); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("isolation: set %s to %s: %w", key, value, err)
		}
	}
	return nil
}

// unroute removes what a bridge without attachments that are apart does not need. What else the host answers for there is the operator's.
func unroute(bridgeName string, addresses []netip.Addr) error {
	if !isRouted(bridgeName) {
		return nil
	}
	answered, err := answered(bridgeName)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		n := answered[a]
		if n == nil {
			continue
		}
		if err := netlink.NeighDel(n); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("isolation: remove the proxy of %s on %s: %w", n.IP, bridgeName, err)
		}
	}
	return setRouted(bridgeName, false)
}

// answered returns the addresses for which the host answers on a bridge with IPv6; of IPv4 it does for all.
func answered(bridgeName string) (map[netip.Addr]*netlink.Neigh, error) {
	link, err := netlink.LinkByName(bridgeName)
	if err != nil {
		if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
			return nil, nil
		}
		return nil, fmt.Errorf("isolation: get link %s: %w", bridgeName, err)
	}
	found, err := netns.Whole(func() ([]netlink.Neigh, error) { return netlink.NeighProxyList(link.Attrs().Index, netlink.FAMILY_V6) })
	if err != nil {
		return nil, fmt.Errorf("isolation: list proxies of %s: %w", bridgeName, err)
	}
	all := map[netip.Addr]*netlink.Neigh{}
	for i := range found {
		n := &found[i]
		if a, ok := netip.AddrFromSlice(n.IP); ok && n.Flags&netlink.NTF_PROXY != 0 {
			n.LinkIndex, all[a] = link.Attrs().Index, n
		}
	}
	return all, nil
}

// proxy has the host answer for addresses on a bridge.
func proxy(bridgeName string, addresses []netip.Addr) error {
	link, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("isolation: get link %s: %w", bridgeName, err)
	}
	for _, a := range addresses {
		if a.Unmap().Is4() {
			continue
		}
		if err := netlink.NeighSet(proxyOf(link, a)); err != nil {
			return fmt.Errorf("isolation: answer for %s on %s: %w", a, bridgeName, err)
		}
	}
	return nil
}

func proxyOf(link netlink.Link, a netip.Addr) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: netlink.FAMILY_V6, Flags: netlink.NTF_PROXY, IP: a.AsSlice()}
}

// answerFor has the host answer for an attachment, if it does for its neighbours.
func answerFor(m *Member) error {
	if m.Bridge == "" || !isRouted(m.Bridge) {
		return nil
	}
	return proxy(m.Bridge, m.Addresses)
}

// stopAnswering ends what the host answers for an attachment, and for all of its bridge if it is the last one that is apart there. Where none
// is, what the host answers is the operator's, and wasApart is false.
func stopAnswering(s *netfilter.Socket, m *Member) (wasApart bool, err error) {
	if m.Bridge == "" || !isRouted(m.Bridge) {
		return false, nil
	}
	here, others, err := apartOn(s, m.Bridge, m.ID)
	switch {
	case err != nil || here == 0:
		return false, err
	case others == 0:
		return true, unrouteUnused(s, m)
	}
	return true, stopAnsweringFor(s, m)
}

// apartOn returns how many attachments are apart on a bridge, and how many of them are others than one.
func apartOn(s *netfilter.Socket, bridgeName, id string) (here, others int, err error) {
	found, err := s.Elements(&netfilter.Table{Family: netfilter.Bridge, Name: name}, apart)
	for _, e := range found {
		if strings.HasSuffix(e.Comment, onBridge+bridgeName) {
			here++
			if ownerOf(e) != ownerText(id) {
				others++
			}
		}
	}
	return here, others, err
}

// unrouteUnused has the host answer for none on the bridge of an attachment that goes, unless another one is apart there. One that is added meanwhile
// may have found that the host answers: then it does again.
func unrouteUnused(s *netfilter.Socket, m *Member) error {
	if _, others, err := apartOn(s, m.Bridge, m.ID); err != nil || others > 0 {
		return err
	}
	addresses, err := memberAddresses(s, m.Bridge)
	if err != nil {
		return err
	}
	if err := unroute(m.Bridge, append(addresses, m.Addresses...)); err != nil {
		return err
	}
	if _, others, err := apartOn(s, m.Bridge, m.ID); err != nil || others == 0 {
		return err
	}
	if err := setRouted(m.Bridge, true); err != nil {
		return err
	}
	if addresses, err = memberAddresses(s, m.Bridge); err != nil {
		return err
	}
	return proxyMissing(m.Bridge, addresses)
}

// memberAddresses returns the addresses of IPv6 that attachments to a bridge have in the tables.
func memberAddresses(s *netfilter.Socket, bridgeName string) ([]netip.Addr, error) {
	found, err := s.Elements(&netfilter.Table{Family: netfilter.INet, Name: name}, members+ip6.suffix)
	return addressesOn(bridgeName, slices.Values(found)), err
}

func stopAnsweringFor(s *netfilter.Socket, m *Member) error {
	link, err := netlink.LinkByName(m.Bridge)
	if err != nil {
		return fmt.Errorf("isolation: get link %s: %w", m.Bridge, err)
	}
	for _, a := range m.Addresses {
		if a.Unmap().Is4() {
			continue
		}
		if isOfOther, err := isOfOther(s, m, a); err != nil {
			return err
		} else if isOfOther {
			continue
		}
		if err := netlink.NeighDel(proxyOf(link, a)); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("isolation: stop answering for %s on %s: %w", a, m.Bridge, err)
		}
	}
	return nil
}

// addressesOn returns the addresses of IPv6 that attachments to a bridge have, of their elements.
func addressesOn(bridgeName string, elements iter.Seq[netfilter.Element]) (all []netip.Addr) {
	for e := range elements {
		if address, ok := bytes.CutPrefix(e.Key, netfilter.LinkKey(bridgeName)); ok {
			if a, ok := netip.AddrFromSlice(address); ok {
				all = append(all, a)
			}
		}
	}
	return all
}

// membersOn returns those that there were.
func (l *listing) membersOn(bridgeName string) []netip.Addr {
	if l == nil {
		return nil
	}
	return addressesOn(bridgeName, maps.Values(l.sets[members+ip6.suffix]))
}
