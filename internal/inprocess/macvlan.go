// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

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

	"github.com/allocnet/allocnet/internal/netns"
)

// macvlanConfig is the configuration of the macvlan plugin.
type macvlanConfig struct {
	types.NetConf
	Master          string        `json:"master"`
	Mode            string        `json:"mode"`
	MTU             int           `json:"mtu"`
	MAC             string        `json:"mac"`
	LinkInContainer bool          `json:"linkInContainer"`
	BcQueueLen      uint32        `json:"bcqueuelen"`
	RuntimeConfig   macCapability `json:"runtimeConfig"`
	Args            struct {
		CNI ipArgs `json:"cni"`
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

// parseMacvlan returns the configuration with the master, which has to exist, and the MAC.
func parseMacvlan(c *call) (*macvlanConfig, error) {
	conf := &macvlanConfig{}
	if err := json.Unmarshal(c.config, conf); err != nil {
		return nil, fmt.Errorf("failed to load netconf: %w", err)
	}
	err := conf.atMaster(c.netns, func() error {
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
	requested, err := requestedMAC(c.args, macArgs{}, conf.RuntimeConfig)
	if requested != "" {
		conf.MAC = requested
	}
	return conf, err
}

// atMaster runs f in the namespace of the master: the host's, or that of the attachment.
func (conf *macvlanConfig) atMaster(netns string, f func() error) error {
	if !conf.LinkInContainer {
		return f()
	}
	return withinPath(netns, func(ns.NetNS) error { return f() })
}

// defaultRouteLink returns the name of the link of the first default route.
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

func addMacvlan(c *call) (*current.Result, error) {
	conf, err := parseMacvlan(c)
	if err != nil {
		return nil, err
	}
	netns, err := ns.GetNS(c.netns)
	if err != nil {
		return nil, fmt.Errorf("failed to open netns %q: %w", c.netns, err)
	}
	defer netns.Close() //nolint:errcheck // read only
	inside, err := conf.create(c, netns)
	if err != nil {
		return nil, err
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Interfaces: []*current.Interface{inside}}
	if conf.IPAM.Type == "" {
		err = within(netns, func(ns.NetNS) error { return setUp(c.ifName) })
	} else {
		err = conf.configure(c, netns, result)
	}
	result.DNS = conf.DNS
	return result, err
}

// create makes the link in the namespace of its master, and moves it to that of the
// attachment, where it gets its name: that of a new link must be free in both.
func (conf *macvlanConfig) create(c *call, netns ns.NetNS) (*current.Interface, error) {
	link, err := conf.link(c, netns)
	if err != nil {
		return nil, err
	}
	err = conf.atMaster(c.netns, func() error {
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
	inside := &current.Interface{Name: c.ifName, Sandbox: netns.Path()}
	err = within(netns, func(ns.NetNS) error {
		if err := ip.RenameLink(link.Name, c.ifName); err != nil {
			_ = ip.DelLinkByName(link.Name) // the first error is returned
			return fmt.Errorf("failed to rename macvlan to %q: %w", c.ifName, err)
		}
		renamed, err := netlinksafe.LinkByName(c.ifName)
		if err != nil {
			return fmt.Errorf("failed to refetch macvlan %q: %w", c.ifName, err)
		}
		inside.Mac = renamed.Attrs().HardwareAddr.String()
		return nil
	})
	return inside, err
}

// newLinkName is the name of the attachment's link until it has its own. DEL finds by it what a
// kill between the two has left.
func (c *call) newLinkName() string {
	return utils.MustFormatHashWithPrefix(maxNameLength, "mcv", c.containerID+"/"+c.ifName)
}

// link returns the link to make.
func (conf *macvlanConfig) link(c *call, netns ns.NetNS) (*netlink.Macvlan, error) {
	mode, known := macvlanModes[conf.Mode]
	if !known {
		return nil, fmt.Errorf("unknown macvlan mode: %q", conf.Mode)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.Namespace = c.newLinkName(), conf.MTU, netlink.NsFd(int(netns.Fd()))
	if conf.MAC != "" {
		var err error
		if attrs.HardwareAddr, err = net.ParseMAC(conf.MAC); err != nil {
			return nil, fmt.Errorf("invalid args %v for MAC addr: %w", conf.MAC, err)
		}
	}
	if attrs.HardwareAddr == nil && mode != netlink.MACVLAN_MODE_PASSTHRU { // which takes the master's
		attrs.HardwareAddr = newMAC()
	}
	return &netlink.Macvlan{LinkAttrs: attrs, Mode: mode, BCQueueLen: conf.BcQueueLen}, nil
}

// configure gives the interface the addresses of the IPAM plugin.
func (conf *macvlanConfig) configure(c *call, netns ns.NetNS, result *current.Result) error {
	allocated, err := c.addIPAM(conf.IPAM.Type)
	if err != nil {
		return err
	}
	result.IPs, result.Routes = allocated.IPs, allocated.Routes
	for _, address := range result.IPs {
		address.Interface = current.Int(0)
	}
	err = within(netns, func(ns.NetNS) error {
		_ = c.sysctls.Set("net/ipv4/conf/"+c.ifName+"/arp_notify", "1") // as the reference plugin, which ignores it
		_ = c.sysctls.Set("net/ipv6/conf/"+c.ifName+"/ndisc_notify", "1")
		return pluginipam.ConfigureIface(c.ifName, result)
	})
	if err != nil {
		_ = c.releaseIPAM(conf.IPAM.Type) // the first error is returned, and DEL releases as well
	}
	return err
}

func checkMacvlan(c *call) error {
	conf, err := parseMacvlan(c)
	if err != nil {
		return err
	}
	return c.checkLink(conf.IPAM.Type, func(link netlink.Link) error {
		macvlan, isMacvlan := link.(*netlink.Macvlan)
		if !isMacvlan {
			return fmt.Errorf("error: Container interface %s not of type macvlan", c.ifName)
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

func delMacvlan(c *call) error {
	conf := &macvlanConfig{}
	if err := json.Unmarshal(c.config, conf); err != nil {
		return fmt.Errorf("failed to load netConf: %w", err)
	}
	if _, err := c.removeLink(); err != nil {
		return err
	}
	if err := c.inNamespace(func() error { _, err := c.removeNamed(c.newLinkName()); return err }); err != nil {
		return err
	}
	if conf.IPAM.Type != "" {
		c.releaseIPAMLater(conf.IPAM.Type)
	}
	return nil
}
