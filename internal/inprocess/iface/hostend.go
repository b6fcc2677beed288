// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package iface

import (
	"fmt"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// HostEnd returns the host's end of the attachment's veth pair; nil if it is gone. Its name in the result is a
// hint: an operator or udev may have changed it, and its MAC. What it is the kernel says: it leads to the attachment's
// namespace.
func HostEnd(c *plugin.Call, result *current.Result) (netlink.Link, error) {
	at := slices.IndexFunc(result.Interfaces, func(i *current.Interface) bool { return i.Name == c.IfName && i.Sandbox != "" })
	if at < 1 || result.Interfaces[at-1].Sandbox != "" {
		return nil, fmt.Errorf("the result has no host's end of interface %s", c.IfName)
	}
	recorded := result.Interfaces[at-1]
	named, err := links.Find(recorded.Name)
	if err != nil {
		return nil, err
	}
	namespace, err := ns.GetNS(c.Netns)
	if err != nil {
		return nil, err
	}
	defer namespace.Close() //nolint:errcheck // read only
	// -1: it has none in the namespace of the host.
	number, err := netlink.GetNetNsIdByFd(int(namespace.Fd()))
	if err != nil {
		return nil, err
	}
	_, isVeth := named.(*netlink.Veth)
	if isVeth && (named.Attrs().NetNsID == number || c.Repair.Moved && named.Attrs().HardwareAddr.String() == recorded.Mac) {
		return named, nil
	}
	renamed, err := renamedEnd(c, number)
	switch {
	case err != nil || renamed != nil:
		return renamed, err
	case named == nil:
		c.Repair.Gone("interface %s of the host", recorded.Name)
		return nil, nil
	case !isVeth:
		return nil, fmt.Errorf("interface %s is a %s, was set up as veth", recorded.Name, named.Type())
	}
	return nil, fmt.Errorf("interface %s does not lead to the attachment's namespace: another program has made it", recorded.Name)
}

// renamedEnd returns the link of the host that leads to the interface inside, and has no name that plugins give;
// nil if there is none.
func renamedEnd(c *plugin.Call, number int) (netlink.Link, error) {
	var inside netlink.Link
	err := within.Path(c.Netns, func(ns.NetNS) (err error) {
		inside, err = links.Find(c.IfName)
		return err
	})
	if err != nil || inside == nil || number < 0 {
		return nil, err
	}
	links, err := netns.Whole(netlink.LinkList)
	return endOf(links, number, inside.Attrs().Index), err
}

// endOf returns the link that leads to an interface of a namespace; nil if there is none. The interface is not
// asked for its peer, which a task may have chosen. One with a name that plugins give is the end of another
// attachment, whose interface a task may have renamed.
func endOf(links []netlink.Link, number, inside int) netlink.Link {
	at := slices.IndexFunc(links, func(link netlink.Link) bool {
		attrs := link.Attrs()
		return link.Type() == "veth" && attrs.NetNsID == number && attrs.ParentIndex == inside && !netns.IsPluginVeth(attrs.Name)
	})
	if at < 0 {
		return nil
	}
	return links[at]
}
