// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	pluginipam "github.com/containernetworking/plugins/pkg/ipam"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// Configure gives an interface of this namespace the addresses and routes of a result, as ConfigureIface of the reference plugins does. That
// has the kernel look for duplicates of IPv6 addresses, for which a client of DHCPv6 has asked the link itself: they can be used at once.
func Configure(c *plugin.Call, result *current.Result) error {
	var conf types.NetConf
	if err := c.Load(&conf); err != nil {
		return err
	}
	if conf.IPAM.Type != "dhcp" {
		return pluginipam.ConfigureIface(c.IfName, result)
	}
	link, err := links.Find(c.IfName)
	if err == nil && link == nil {
		err = fmt.Errorf("interface %s does not exist in the namespace", c.IfName)
	}
	if err != nil {
		return err
	}
	others := *result
	others.IPs = nil
	for _, address := range result.IPs {
		if links.IsIPv4(address.Address.IP) {
			others.IPs = append(others.IPs, address)
		} else if err := errors.Join(links.MakeRoom(link, address.Address), addAddress(c, link, address.Address)); err != nil {
			return fmt.Errorf("address %s of %s: %w", address.Address.String(), c.IfName, err)
		}
	}
	return pluginipam.ConfigureIface(c.IfName, &others)
}
