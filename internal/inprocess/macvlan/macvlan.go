// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package macvlan is the plugin macvlan: an interface with a MAC of its own on a link of the host.
package macvlan

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ip"
	pluginipam "github.com/containernetworking/plugins/pkg/ipam"
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

// Type is the macvlan plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Check: check, Del: del, Repair: repair,
}

// config is the configuration of the macvlan plugin.
type config struct {
	types.NetConf
	Master          string               `json:"master"`
	Mode            string               `json:"mode"`
	MTU             int                  `json:"mtu"`
	MAC             string               `json:"mac"`
	LinkInContainer bool                 `json:"linkInContainer"`
	BcQueueLen      uint32               `json:"bcqueuelen"`
	RuntimeConfig   plugin.MACCapability `json:"runtimeConfig"`
	Args            struct {
		CNI plugin.IPArgs `json:"cni"`
	} `json:"args"`
}

// macvlanModes are the values of "mode". That of no name is the default.
var macvlanModes = map[string]netlink.MacvlanMode{
	"":         netlink.MACVLAN_MODE_BRIDGE,
	"bridge":   netlink.MACVLAN_MODE_BRIDGE,
	"private":  netlink.MACVLAN_MODE_PRIVATE,
	"vepa":     netlink.MACVLAN_MODE_VEPA,
	"passthru": netlink.MACVLAN_MODE_PASSTHRU,
}

// parse returns the configuration with the master, which has to exist, and the MAC.
func parse(c *plugin.Call) (*config, error) {
	conf := &config{}
	if err := c.Load(conf); err != nil {
		return nil, err
	}
	err := conf.atMaster(c.Netns, func() error {
		if conf.Master == "" {
			var err error
			if conf.Master, err = defaultRouteLink(); err != nil {
				return err
			}
		}
		master, err := netlinksafe.LinkByName(conf.Master)
		if err != nil {
			return err
		}
		if mtu := master.Attrs().MTU; conf.MTU < 0 || conf.MTU > mtu {
			return fmt.Errorf("invalid MTU %d, must be [0, master MTU(%d)]", conf.MTU, mtu)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	requested, err := plugin.RequestedMAC(c.Args, plugin.MACArgs{}, conf.RuntimeConfig)
	if requested != "" {
		conf.MAC = requested
	}
	return conf, err
}

// atMaster runs f in the namespace of the master: the host's, or that of the attachment.
func (conf *config) atMaster(netns string, f func() error) error {
	if !conf.LinkInContainer {
		return f()
	}
	return within.Path(netns, func(ns.NetNS) error { return f() })
}

func defaultRouteLink() (string, error) {
	routes, err := netns.Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return "", err
	}
	for _, route := range routes {
		if !ip.IsIPNetZero(route.Dst) {
			continue
		}
		link, err := netlink.LinkByIndex(route.LinkIndex)
		if err != nil {
			return "", err
		}
		return link.Attrs().Name, nil
	}
	return "", errors.New("no default route interface found")
}

func add(c *plugin.Call) (*current.Result, error) {
	conf, err := parse(c)
	if err != nil {
		return nil, err
	}
	netns, err := ns.GetNS(c.Netns)
	if err != nil {
		return nil, fmt.Errorf("failed to open netns %q: %w", c.Netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	inside, err := conf.create(c, netns)
	if err != nil {
		return nil, err
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Interfaces: []*current.Interface{inside}}
	if conf.IPAM.Type == "" {
		err = within.Namespace(netns, func(ns.NetNS) error { return links.SetUp(c.IfName) })
	} else {
		err = conf.configure(c, netns, result)
	}
	result.DNS = plugin.ChooseDNS(conf.DNS, result.DNS)
	return result, err
}

// create makes the link in the namespace of its master, and moves it to that of the
// attachment, where it gets its name: that of a new link must be free in both.
func (conf *config) create(c *plugin.Call, netns ns.NetNS) (*current.Interface, error) {
	link, err := conf.link(c, netns)
	if err != nil {
		return nil, err
	}
	err = conf.atMaster(c.Netns, func() error {
		master, err := netlinksafe.LinkByName(conf.Master)
		if err != nil {
			return fmt.Errorf("failed to lookup master %q: %w", conf.Master, err)
		}
		link.ParentIndex = master.Attrs().Index
		if err := netlink.LinkAdd(link); err != nil {
			return fmt.Errorf("failed to create macvlan: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	inside := &current.Interface{Name: c.IfName, Sandbox: netns.Path()}
	err = within.Namespace(netns, func(ns.NetNS) error {
		if err := ip.RenameLink(link.Name, c.IfName); err != nil {
			_ = ip.DelLinkByName(link.Name) // the first error is returned
			return fmt.Errorf("failed to rename macvlan to %q: %w", c.IfName, err)
		}
		renamed, err := netlinksafe.LinkByName(c.IfName)
		if err != nil {
			return fmt.Errorf("failed to refetch macvlan %q: %w", c.IfName, err)
		}
		inside.Mac = renamed.Attrs().HardwareAddr.String()
		return c.SwitchIPv6()
	})
	return inside, err
}

// newLinkName is the name of the attachment's link until it has its own. DEL finds by it what a
// kill between the two has left.
func newLinkName(c *plugin.Call) string {
	return utils.MustFormatHashWithPrefix(links.MaxNameLength, "mcv", c.ContainerID+"/"+c.IfName)
}

func (conf *config) link(c *plugin.Call, netns ns.NetNS) (*netlink.Macvlan, error) {
	mode, known := macvlanModes[conf.Mode]
	if !known {
		return nil, fmt.Errorf("unknown macvlan mode: %q", conf.Mode)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Namespace = newLinkName(c), conf.MTU, netlink.NsFd(int(netns.Fd()))
	if conf.MAC != "" {
		var err error
		if attrs.HardwareAddr, err = net.ParseMAC(conf.MAC); err != nil {
			return nil, fmt.Errorf("invalid args %v for MAC addr: %w", conf.MAC, err)
		}
	}
	if attrs.HardwareAddr == nil && mode != netlink.MACVLAN_MODE_PASSTHRU { // which takes the master's
		attrs.HardwareAddr = links.NewMAC()
	}
	return &netlink.Macvlan{LinkAttrs: attrs, Mode: mode, BCQueueLen: conf.BcQueueLen}, nil
}

// configure gives the interface the addresses of the IPAM plugin.
func (conf *config) configure(c *plugin.Call, netns ns.NetNS, result *current.Result) error {
	allocated, err := c.AddIPAM(conf.IPAM.Type)
	if err != nil {
		return err
	}
	result.IPs, result.Routes = allocated.IPs, allocated.Routes
	if conf.IPAM.Type == "dhcp" { // of other types the reference plugin drops it
		result.DNS = allocated.DNS
	}
	for _, address := range result.IPs {
		address.Interface = current.Int(0)
	}
	err = within.Namespace(netns, func(ns.NetNS) error {
		_ = c.Sysctls.Set("net/ipv4/conf/"+c.IfName+"/arp_notify", "1") // as the reference plugin, which ignores it
		_ = c.Sysctls.Set("net/ipv6/conf/"+c.IfName+"/ndisc_notify", "1")
		return pluginipam.ConfigureIface(c.IfName, result)
	})
	if err != nil {
		_ = c.ReleaseIPAM(conf.IPAM.Type) // the first error is returned, and DEL releases as well
	}
	return err
}

func check(c *plugin.Call) error {
	conf, err := parse(c)
	if err != nil {
		return err
	}
	return iface.Check(c, conf.IPAM.Type, func(link netlink.Link) error {
		macvlan, isMacvlan := link.(*netlink.Macvlan)
		if !isMacvlan {
			return fmt.Errorf("error: Container interface %s not of type macvlan", c.IfName)
		}
		mode, known := macvlanModes[conf.Mode]
		if !known {
			return fmt.Errorf("unknown macvlan mode: %q", conf.Mode)
		}
		if macvlan.Mode != mode {
			return fmt.Errorf("container macvlan mode %s does not match expected value: %s", macvlanMode(macvlan.Mode), macvlanMode(mode))
		}
		return nil
	})
}

// macvlanMode returns the name of a mode; empty if the configuration cannot have it.
func macvlanMode(mode netlink.MacvlanMode) string {
	for name, m := range macvlanModes {
		if m == mode && name != "" {
			return name
		}
	}
	return ""
}

func del(c *plugin.Call) error {
	conf := &config{}
	if err := json.Unmarshal(c.Config, conf); err != nil {
		return fmt.Errorf("failed to load netConf: %w", err)
	}
	if _, err := iface.Remove(c); err != nil {
		return err
	}
	if err := c.InNamespace(func() error { _, err := iface.RemoveNamed(c, newLinkName(c)); return err }); err != nil {
		return err
	}
	if conf.IPAM.Type != "" {
		c.ReleaseIPAMLater(conf.IPAM.Type)
	}
	return nil
}

// repair repairs the interface inside. It is gone if its master was removed.
func repair(c *plugin.Call) error {
	result, err := c.RequirePrevResult()
	if err != nil {
		return err
	}
	return iface.Repair(c, result, iface.How{Kind: "macvlan", Direct: true})
}
