// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/kernelevents"
)

const (
	// addressProtocol is the attribute of an address that says who has added it: Linux keeps it from 5.18 on.
	addressProtocol = 11
	// publishedProtocol is the value of those that Publish adds, that of the routes between hosts.
	publishedProtocol = 172
	forever           = math.MaxUint32
)

// held is an address of a link of the caller's namespace.
type held struct {
	netlink.Addr
	// published is whether Publish has added it.
	published bool
}

// Published returns the addresses of the caller's namespace that Publish has added, with their links.
func Published() (map[netip.Addr]string, error) {
	all, err := heldAddresses()
	if err != nil {
		return nil, err
	}
	found := map[netip.Addr]string{}
	for _, h := range all {
		if address, ok := netip.AddrFromSlice(h.IP); ok && h.published {
			found[address.Unmap()] = linkName(h.LinkIndex)
		}
	}
	return found, nil
}

func linkName(index int) string {
	if link, err := netlink.LinkByIndex(index); err == nil {
		return link.Attrs().Name
	}
	return fmt.Sprint("interface ", index)
}

// Publish gives an address to a link of the caller's namespace, as one that this program may remove. Another link with it loses it
// first. An address that something else has added is refused. The host sends with it only what answers: it may have it no more soon.
func Publish(name string, address netip.Addr) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("publish %s on %s: %w", address, name, err)
	}
	if has, err := makeRoom(link, address); has || err != nil {
		return err
	}
	if err := addPublished(link.Attrs().Index, address); err != nil {
		return fmt.Errorf("publish %s on %s: %w", address, name, err)
	}
	found, err := Published()
	if err == nil && found[address] == "" {
		err = fmt.Errorf("publish %s on %s: the kernel does not keep who has added an address: want Linux 5.18 or later", address, name)
		err = errors.Join(err, removeAddress(link.Attrs().Index, address))
	}
	return err
}

// makeRoom removes a published address from other links, and tells whether the link has it.
func makeRoom(link netlink.Link, address netip.Addr) (has bool, err error) {
	all, err := heldAddresses()
	if err != nil {
		return false, err
	}
	for _, h := range all {
		switch {
		case !h.is(address):
		case !h.published:
			return false, fmt.Errorf("publish %s on %s: %s has it, to which something else has given it: remove it there, or publish another address", address, link.Attrs().Name, linkName(h.LinkIndex))
		case h.LinkIndex == link.Attrs().Index:
			has = true
		default:
			if err := removeAddress(h.LinkIndex, address); err != nil {
				return false, err
			}
		}
	}
	return has, nil
}

// Unpublish removes an address that Publish has added. It is no error if no link has it.
func Unpublish(address netip.Addr) error {
	all, err := heldAddresses()
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.published && h.is(address) {
			err = errors.Join(err, removeAddress(h.LinkIndex, address))
		}
	}
	return err
}

func (h held) is(address netip.Addr) bool {
	own, ok := netip.AddrFromSlice(h.IP)
	return ok && own.Unmap() == address
}

func removeAddress(link int, address netip.Addr) error {
	err := netlink.AddrDel(nil, &netlink.Addr{IPNet: IPNet(netip.PrefixFrom(address, address.BitLen())), LinkIndex: link})
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s from %s: %w", address, linkName(link), err)
	}
	return nil
}

func heldAddresses() ([]held, error) {
	return Whole(func() (all []held, err error) {
		request := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		request.AddData(nl.NewIfAddrmsg(unix.AF_UNSPEC))
		messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
		for _, m := range messages {
			a, errOne := addressIn(m)
			all, err = append(all, held{a, isPublished(m)}), errors.Join(err, errOne)
		}
		return all, err
	})
}

func isPublished(message []byte) bool {
	return bytes.Equal(kernelevents.AttributesOf(message[unix.SizeofIfAddrmsg:])[addressProtocol], []byte{publishedProtocol})
}

// addPublished adds an address. One of IPv6 is used at once, as the record of the pool says that it is no other host's, and is not
// preferred: the host would choose it for what it sends. Linux has no such thing for IPv4, and takes the one that was added first.
func addPublished(link int, address netip.Addr) error {
	request := nl.NewNetlinkRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	header := nl.NewIfAddrmsg(unix.AF_INET)
	if address.Is6() {
		header = nl.NewIfAddrmsg(unix.AF_INET6)
		header.Flags = unix.IFA_F_NODAD
	}
	header.Prefixlen, header.Index = uint8(address.BitLen()), uint32(link) // at most 128, and an index
	request.AddData(header)
	for _, attribute := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		request.AddData(nl.NewRtAttr(int(attribute), address.AsSlice()))
	}
	request.AddData(nl.NewRtAttr(addressProtocol, []byte{publishedProtocol}))
	if address.Is6() {
		info := nl.IfaCacheInfo{IfaCacheinfo: unix.IfaCacheinfo{Valid: forever}}
		request.AddData(nl.NewRtAttr(unix.IFA_CACHEINFO, info.Serialize()))
	}
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
