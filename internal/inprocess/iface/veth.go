// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// AddVeth makes a veth pair: the interface of the attachment, with a MAC, a random one if it is empty, and
// an end of the host, with a random name unless it is isolated, which is set up. One that is to be a port of a bridge has no IPv6 address: the
// bridge takes what comes to it.
func AddVeth(c *plugin.Call, namespace ns.NetNS, mtu int, mac, bridge string) (host, inside netlink.Link, err error) {
	var own net.HardwareAddr
	if mac != "" {
		if own, err = net.ParseMAC(mac); err != nil {
			return nil, nil, fmt.Errorf("failed to make veth pair: %w", err)
		}
	}
	var veth *netlink.Veth
	lock, err := lockOf(namespace)
	if err != nil {
		return nil, nil, err
	}
	err = within.Namespace(namespace, func(hostNS ns.NetNS) error {
		veth = links.NewVeth(c.IfName, endName(c), mtu, hostNS)
		if own != nil {
			veth.HardwareAddr = own
		}
		inside, err = makeInside(c, lock, veth)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	// To ask for it also has the kernel see that it has no carrier: a bridge would forward at once from a port of which that is not known,
	// and flood what the interface announces when it is set up (arp_notify) to all others.
	if host, err = netlinksafe.LinkByName(veth.PeerName); err != nil {
		return nil, nil, fmt.Errorf("failed to lookup %q: %w", veth.PeerName, err)
	}
	if bridge != "" {
		_ = netlink.LinkSetIP6AddrGenMode(host, nl.IN6_ADDR_GEN_MODE_NONE) // a host without IPv6 has no such mode
	} else if c.IPv6Off {
		if err := netns.SwitchIPv6Off(&c.Sysctls, veth.PeerName); err != nil {
			return nil, nil, err
		}
	}
	if err := c.GuardEnd(bridge); err != nil {
		return nil, nil, err
	}
	if err := netlink.LinkSetUp(host); err != nil {
		return nil, nil, fmt.Errorf("failed to set %q up: %w", host.Attrs().Name, err)
	}
	_ = c.Sysctls.Set("net/ipv6/conf/"+veth.PeerName+"/accept_ra", "0") // a host without IPv6 has no such key
	return host, inside, nil
}

// endName is the name that is on record for the end on the host; empty if there is none.
func endName(c *plugin.Call) string {
	if c.Isolation == nil {
		return ""
	}
	return c.Isolation.End
}

// making has a lock for each namespace, by its inode: it is held while a pair is made there, and alone while new interfaces of the
// namespace come without IPv6. Namespaces may share one.
var making [64]sync.RWMutex

// lockOf returns the lock of a namespace.
func lockOf(namespace ns.NetNS) (*sync.RWMutex, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(namespace.Fd()), &stat); err != nil {
		return nil, fmt.Errorf("identify namespace %s: %w", namespace.Path(), err)
	}
	return &making[stat.Ino%uint64(len(making))], nil
}

// makeInside makes the pair in this namespace, which lock belongs to, without IPv6 if the network has none.
func makeInside(c *plugin.Call, lock *sync.RWMutex, veth *netlink.Veth) (inside netlink.Link, err error) {
	if !c.IPv6Off {
		lock.RLock()
		defer lock.RUnlock()
		return links.MakeVeth(veth)
	}
	lock.Lock()
	defer lock.Unlock()
	if err = netns.SuspendIPv6(&c.Sysctls); err == nil {
		inside, err = links.MakeVeth(veth)
	}
	return inside, errors.Join(err, netns.ResumeIPv6(&c.Sysctls))
}
