// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"errors"
	"net"
	"slices"
	"strings"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// where returns the configuration with the name that the attachment's bridge has now: an operator may have renamed it, or the
// network may have an alternative name, by which the kernel found it at ADD. It refuses a port of any other bridge, before a second
// bridge with the gateways is made in the place of the one that is missing under the name of the network.
func (conf *config) where(c *plugin.Call, result *current.Result, port netlink.Link) (*config, error) {
	master := port.Attrs().MasterIndex
	named, err := netlinksafe.LinkByName(conf.Bridge)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		named = nil
	case err != nil:
		return nil, err
	case master == 0 || named.Attrs().Index == master:
		found := *conf
		found.Bridge = named.Attrs().Name
		return &found, nil
	}
	if master == 0 {
		return conf, nil
	}
	link, err := netlink.LinkByIndex(master)
	if err != nil {
		return nil, err
	}
	present, err := links.Addresses(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	if named != nil || !conf.isRenamed(link, present, plugin.Find(result, conf.Bridge, ""), recordedGateways(c, result)) {
		return nil, otherMaster(port)
	}
	renamed := *conf
	renamed.Bridge, renamed.vlanPort = link.Attrs().Name, conf.gatewayLink()
	return &renamed, nil
}

// isRenamed tells whether a link with such addresses is the bridge on record under another name: it has its MAC and its
// gateways, which another bridge has no reason to have.
func (conf *config) isRenamed(link netlink.Link, present []netlink.Addr, recorded *current.Interface, gateways []net.IPNet) bool {
	if link.Type() != "bridge" || recorded == nil || !strings.EqualFold(recorded.Mac, link.Attrs().HardwareAddr.String()) {
		return false
	}
	if !conf.IsGateway || conf.VLAN != 0 { // it has none
		return true
	}
	return !slices.ContainsFunc(gateways, func(gateway net.IPNet) bool { return !hasIP(present, gateway.IP) })
}

func hasIP(present []netlink.Addr, ip net.IP) bool {
	return slices.ContainsFunc(present, func(a netlink.Addr) bool { return a.IP.Equal(ip) })
}
