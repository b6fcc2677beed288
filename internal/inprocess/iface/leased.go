// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"fmt"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	pluginipam "github.com/containernetworking/plugins/pkg/ipam"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// searchTimeout is how long the kernel may take to find out whether another interface has an IPv6 address, which is a second or two.
const searchTimeout = 5 * time.Second

// Configure gives an interface of this namespace the addresses and routes of a result, as ConfigureIface of the reference plugins does. That
// waits for IPv6 addresses with a gateway alone until the kernel has asked the link whether another interface has them. DHCPv6 gives none, and
// a server does not know of all addresses of a link.
func Configure(c *plugin.Call, result *current.Result) error {
	var conf types.NetConf
	if err := c.Load(&conf); err != nil {
		return err
	}
	if conf.IPAM.Type != "dhcp" {
		return pluginipam.ConfigureIface(c.IfName, result)
	}
	leased := slices.DeleteFunc(slices.Clone(result.IPs), func(a *current.IPConfig) bool { return links.IsIPv4(a.Address.IP) })
	link, err := links.Find(c.IfName)
	if err == nil && link == nil {
		err = fmt.Errorf("interface %s does not exist in the namespace", c.IfName)
	}
	if err != nil {
		return err
	}
	for _, address := range leased {
		if err := links.MakeRoom(link, address.Address); err != nil {
			return err
		}
	}
	if err := pluginipam.ConfigureIface(c.IfName, result); err != nil {
		return err
	}
	return awaitSearched(link, leased)
}

// awaitSearched waits until the kernel has asked the link for addresses.
func awaitSearched(link netlink.Link, leased []*current.IPConfig) error {
	for deadline := time.Now().Add(searchTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		present, err := links.Addresses(link, netlink.FAMILY_V6)
		if err != nil {
			return err
		}
		tentative := slices.DeleteFunc(present, func(a netlink.Addr) bool { return a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0 })
		waits := false
		for _, address := range leased {
			at := slices.IndexFunc(tentative, func(a netlink.Addr) bool { return a.IP.Equal(address.Address.IP) })
			if at >= 0 && tentative[at].Flags&unix.IFA_F_DADFAILED != 0 {
				return fmt.Errorf("the address %s that a DHCPv6 server gives has another interface of the link already: want a range of the server that others leave alone", address.Address.IP)
			}
			waits = waits || at >= 0
		}
		if !waits {
			return nil
		}
	}
	return fmt.Errorf("the kernel has not found out within %s whether another interface of the link has the addresses by DHCPv6", searchTimeout)
}
