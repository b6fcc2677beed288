// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"encoding/binary"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// AddressesOf returns the addresses of a link of the caller's namespace. The kernel selects them, from Linux 5.0 on: to list all takes
// the longer the more links the host has.
func AddressesOf(link netlink.Link, family int) ([]netlink.Addr, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	_ = unix.SetsockoptInt(socket.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1) // before it, all are listed
	request := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}
	header := nl.NewIfAddrmsg(family)
	header.Index = uint32(link.Attrs().Index)
	request.AddData(header)
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	if err != nil {
		return nil, err
	}
	var all []netlink.Addr
	for _, m := range messages {
		a, err := addressIn(m)
		if err != nil {
			return nil, err
		}
		if a.LinkIndex == link.Attrs().Index && (family == netlink.FAMILY_ALL || nl.GetIPFamily(a.IP) == family) {
			all = append(all, a)
		}
	}
	return all, nil
}

// addressIn decodes an address. One with a peer is a whole one, without a network.
func addressIn(message []byte) (netlink.Addr, error) {
	header := nl.DeserializeIfAddrmsg(message)
	attributes, err := nl.ParseRouteAttr(message[header.Len():])
	if err != nil {
		return netlink.Addr{}, err
	}
	a := netlink.Addr{LinkIndex: int(header.Index), Scope: int(header.Scope), Flags: int(header.Flags), IPNet: &net.IPNet{}}
	var local net.IP
	for _, attribute := range attributes {
		value := attribute.Value
		switch attribute.Attr.Type {
		case unix.IFA_ADDRESS:
			a.IPNet = &net.IPNet{IP: value, Mask: net.CIDRMask(int(header.Prefixlen), 8*len(value))}
		case unix.IFA_LOCAL:
			local = value
		case unix.IFA_FLAGS:
			a.Flags = int(binary.NativeEndian.Uint32(value))
		}
	}
	if local != nil && !local.Equal(a.IP) {
		a.Peer, a.IPNet = a.IPNet, &net.IPNet{IP: local, Mask: net.CIDRMask(8*len(local), 8*len(local))}
	}
	return a, nil
}
