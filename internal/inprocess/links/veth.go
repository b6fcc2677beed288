// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package links

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"

	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NewVeth returns a pair to be made, with a name for the end of the caller's namespace, and one for the other end, which is random
// if it is empty.
func NewVeth(name, peer string, mtu int, peerNS ns.NetNS) *netlink.Veth {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = name, mtu, NewMAC()
	// Else the kernel makes one for each processor, uses one, and waits for packets in flight, while all that changes links waits.
	attrs.NumTxQueues, attrs.NumRxQueues = 1, 1
	return &netlink.Veth{LinkAttrs: attrs, PeerName: peer, PeerHardwareAddr: newPortMAC(), PeerNamespace: netlink.NsFd(int(peerNS.Fd()))}
}

// peerNames is how many random names are tried.
const peerNames = 10

// MakeVeth makes the pair, and returns the end of this namespace with what the kernel has
// chosen for it.
func MakeVeth(veth *netlink.Veth) (netlink.Link, error) {
	isNamed := veth.PeerName != ""
	for range peerNames {
		if !isNamed {
			var err error
			if veth.PeerName, err = ip.RandomVethName(); err != nil {
				return nil, err
			}
		}
		name := veth.PeerName
		err := netlink.LinkAdd(veth)
		if err == nil {
			return refetch(veth)
		}
		if isNamed || !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("failed to make veth pair: %w", err)
		}
		if _, err := netlinksafe.LinkByName(veth.Name); err == nil {
			return nil, fmt.Errorf("container veth name (%q) peer provided (%q) already exists", veth.Name, name)
		}
	}
	return nil, errors.New("failed to find a unique veth name")
}

// refetch returns the link with what the kernel has chosen for it; it is deleted if that fails.
func refetch(veth *netlink.Veth) (netlink.Link, error) {
	link, err := netlinksafe.LinkByName(veth.Name)
	if err != nil {
		_ = netlink.LinkDel(veth) // the first error is returned
		return nil, fmt.Errorf("failed to make veth pair: %w", err)
	}
	return link, nil
}

// NewMAC returns a random MAC, for links that get it when they are made: udev replaces MACs that the kernel
// has chosen, after the result of ADD has them.
func NewMAC() net.HardwareAddr {
	mac := make(net.HardwareAddr, 6)
	_, _ = rand.Read(mac) // never fails
	mac[0] = mac[0]&^1 | 2
	return mac
}

// newPortMAC returns one for a port of a bridge: higher than what other ports have, because a bridge
// without a MAC of its own takes the lowest one.
func newPortMAC() net.HardwareAddr {
	mac := NewMAC()
	mac[0], mac[1] = 0xfe, mac[1]|0x80
	return mac
}
