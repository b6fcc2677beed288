// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package sublink has what macvlan, ipvlan and vlan share: interfaces that are made on another link, their master.
package sublink

import (
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/containernetworking/plugins/pkg/utils"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/iface"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// Master is the keys that say on which link an interface is made.
type Master struct {
	Link            string `json:"master"`
	LinkInContainer bool   `json:"linkInContainer"`
	// MTU is that of the interface. 0: that of the master.
	MTU int `json:"mtu"`
}

// in runs f in the namespace of the master: the host's, or that of the attachment.
func (m Master) in(netns string, f func() error) error {
	if !m.LinkInContainer {
		return f()
	}
	return within.Path(netns, func(ns.NetNS) error { return f() })
}

// UseDefaultRoute has the link of a default route be the master, if none is named.
func (m *Master) UseDefaultRoute(namespace string) error {
	if m.Link != "" {
		return nil
	}
	return m.in(namespace, func() error {
		routes, err := netns.Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
		if err != nil {
			return err
		}
		at := slices.IndexFunc(routes, func(r netlink.Route) bool { return ip.IsIPNetZero(r.Dst) })
		if at < 0 {
			return errors.New("no default route interface found")
		}
		link, err := netlink.LinkByIndex(routes[at].LinkIndex)
		if err == nil {
			m.Link = link.Attrs().Name
		}
		return err
	})
}

// CheckMTU requires that the master is there, and has the MTU of the interface.
func (m Master) CheckMTU(netns string) error {
	return m.in(netns, func() error {
		master, err := netlinksafe.LinkByName(m.Link)
		if err != nil {
			return err
		}
		if mtu := master.Attrs().MTU; m.MTU < 0 || m.MTU > mtu {
			return fmt.Errorf("invalid MTU %d, must be [0, master MTU(%d)]", m.MTU, mtu)
		}
		return nil
	})
}

func (m Master) find() (netlink.Link, error) {
	link, err := netlinksafe.LinkByName(m.Link)
	if err != nil {
		return nil, fmt.Errorf("failed to lookup master %q: %w", m.Link, err)
	}
	return link, nil
}

// NewLinkName is the name of the attachment's link until it has its own. DEL finds by it what a
// kill between the two has left.
func NewLinkName(c *plugin.Call) string {
	return utils.MustFormatHashWithPrefix(links.MaxNameLength, "mcv", c.ContainerID+"/"+c.IfName)
}

// Attrs returns those of a link that Add makes.
func (m Master) Attrs(c *plugin.Call, netns ns.NetNS) netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Namespace = NewLinkName(c), m.MTU, netlink.NsFd(int(netns.Fd()))
	return attrs
}

// Add makes the link in the namespace of its master, and has the kernel move it to that of the
// attachment, where it gets its name: that of a new link must be free in both.
func (m Master) Add(c *plugin.Call, netns ns.NetNS, link netlink.Link) (*current.Interface, error) {
	kind := link.Type()
	err := m.in(c.Netns, func() error {
		master, err := m.find()
		if err != nil {
			return err
		}
		link.Attrs().ParentIndex = master.Attrs().Index
		if err := addLink(link); err != nil {
			return fmt.Errorf("failed to create %s: %w", kind, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	inside := &current.Interface{Name: c.IfName, Sandbox: netns.Path()}
	err = within.Namespace(netns, func(ns.NetNS) error {
		if err := ip.RenameLink(link.Attrs().Name, c.IfName); err != nil {
			_ = ip.DelLinkByName(link.Attrs().Name) // the first error is returned
			return fmt.Errorf("failed to rename %s to %q: %w", kind, c.IfName, err)
		}
		renamed, err := netlinksafe.LinkByName(c.IfName)
		if err != nil {
			return fmt.Errorf("failed to refetch %s %q: %w", kind, c.IfName, err)
		}
		inside.Mac = renamed.Attrs().HardwareAddr.String()
		return c.SwitchIPv6()
	})
	return inside, err
}

// addLink has the kernel make a link; tests make another kind, where the kernel lacks it.
var addLink = netlink.LinkAdd

// Announce has the kernel announce addresses that the interface gets, as the reference plugins do, which ignore it if that fails.
func Announce(c *plugin.Call) {
	_ = c.Sysctls.Set("net/ipv4/conf/"+c.IfName+"/arp_notify", "1")
	_ = c.Sysctls.Set("net/ipv6/conf/"+c.IfName+"/ndisc_notify", "1")
}

// Allocate has the IPAM plugin allocate addresses, and gives them to the interface of the result, which has no other one.
func Allocate(c *plugin.Call, netns ns.NetNS, conf types.NetConf, result *current.Result, before func(*plugin.Call)) error {
	allocated, err := c.AddIPAM(conf.IPAM.Type)
	if err != nil {
		return err
	}
	result.IPs, result.Routes = allocated.IPs, allocated.Routes
	if conf.IPAM.Type == "dhcp" { // of other types the reference plugins drop it
		result.DNS = allocated.DNS
	}
	if err := Configure(c, netns, result, before); err != nil {
		_ = c.ReleaseIPAM(conf.IPAM.Type) // the first error is returned, and DEL releases as well
		return err
	}
	return nil
}

// Configure gives the interface the addresses and routes of the result. Nil before: nothing is done in its namespace before that.
func Configure(c *plugin.Call, netns ns.NetNS, result *current.Result, before func(*plugin.Call)) error {
	for _, address := range result.IPs {
		address.Interface = current.Int(0)
	}
	return within.Namespace(netns, func(ns.NetNS) error {
		if before != nil {
			before(c)
		}
		return iface.Configure(c, result)
	})
}

// Del leaves the interface to be removed, with what a kill has left before it had its name, and its addresses to be released.
func Del(c *plugin.Call) error {
	conf := &types.NetConf{}
	if err := c.Load(conf); err != nil {
		return err
	}
	if _, err := iface.Remove(c); err != nil {
		return err
	}
	if err := c.InNamespace(func() error { _, err := iface.RemoveNamed(c, NewLinkName(c)); return err }); err != nil {
		return err
	}
	if conf.IPAM.Type != "" {
		c.ReleaseIPAMLater(conf.IPAM.Type)
	}
	return nil
}

// Repair repairs an interface of a kind. It is gone if its master was removed.
func Repair(c *plugin.Call, kind string) error {
	result, err := c.RequirePrevResult()
	if err != nil {
		return err
	}
	return iface.Repair(c, result, iface.How{Kind: kind, Direct: true})
}
