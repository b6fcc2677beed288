// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"fmt"
	"net"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// AddVeth makes a veth pair: the interface of the attachment, with a MAC, a random one if it is empty, and
// an end of the host with a random name, which is set up. A port of a bridge has no IPv6: the bridge takes what comes to it, and
// each address would be searched for duplicates at all other ports.
func AddVeth(c *plugin.Call, namespace ns.NetNS, mtu int, mac string, isPort bool) (host, inside netlink.Link, err error) {
	var own net.HardwareAddr
	if mac != "" {
		if own, err = net.ParseMAC(mac); err != nil {
			return nil, nil, fmt.Errorf("failed to make veth pair: %w", err)
		}
	}
	var veth *netlink.Veth
	err = within.Namespace(namespace, func(hostNS ns.NetNS) error {
		veth = links.NewVeth(c.IfName, mtu, hostNS)
		if own != nil {
			veth.HardwareAddr = own
		}
		if inside, err = links.MakeVeth(veth); err != nil {
			return err
		}
		return c.SwitchIPv6()
	})
	if err != nil {
		return nil, nil, err
	}
	if host, err = netlinksafe.LinkByName(veth.PeerName); err != nil {
		return nil, nil, fmt.Errorf("failed to lookup %q: %w", veth.PeerName, err)
	}
	if isPort || c.IPv6Off {
		if err := netns.SwitchIPv6Off(&c.Sysctls, veth.PeerName); err != nil {
			return nil, nil, err
		}
	}
	if err := netlink.LinkSetUp(host); err != nil {
		return nil, nil, fmt.Errorf("failed to set %q up: %w", veth.PeerName, err)
	}
	_ = c.Sysctls.Set("net/ipv6/conf/"+veth.PeerName+"/accept_ra", "0") // a host without IPv6 has no such key
	return host, inside, nil
}
