// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"errors"
	"fmt"
	"net"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/netns"
)

// bridges has a lock for each bridge, which is held while it is made or gets an address: several attachments
// may share one.
var bridges files.KeyLocks

// ensureBridge makes the bridge if it is missing, with a MAC, a random one if it is nil, and sets it up. One that
// is there stays as it is: it may be the host's way to its network.
func (conf *config) ensureBridge(c *plugin.Call, mac net.HardwareAddr) (*netlink.Bridge, error) {
	unlock, err := bridges.Lock(c.Ctx, conf.Bridge)
	if err != nil {
		return nil, err
	}
	defer unlock()
	bridge, err := bridgeByName(conf.Bridge)
	var missing netlink.LinkNotFoundError
	made := false
	if errors.As(err, &missing) {
		if made, err = conf.makeBridge(mac); err == nil {
			bridge, err = bridgeByName(conf.Bridge) // one that another process has made may be another kind of link
		}
	}
	if err != nil {
		return nil, err
	}
	if conf.PromiscMode {
		if err := netlink.SetPromiscOn(bridge); err != nil {
			return nil, fmt.Errorf("could not set promiscuous mode on %q: %w", conf.Bridge, err)
		}
	}
	if made {
		_ = c.Sysctls.Set("net/ipv6/conf/"+conf.Bridge+"/accept_ra", "0") // a host without IPv6 has no such key
	} else if err := conf.keep(bridge); err != nil {
		return nil, err
	}
	if bridge.Flags&net.FlagUp != 0 {
		return bridge, nil
	}
	return bridge, netlink.LinkSetUp(bridge)
}

// makeBridge tells whether it has made the bridge, and not another process.
func (conf *config) makeBridge(mac net.HardwareAddr) (made bool, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr, attrs.Group = conf.Bridge, conf.MTU, mac, netns.LinkGroup
	if mac == nil {
		attrs.HardwareAddr = links.NewMAC()
	}
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if conf.VLAN != 0 || conf.VLANTrunk != nil {
		filtering := true
		bridge.VlanFiltering = &filtering
	}
	err = netlink.LinkAdd(bridge)
	if errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("could not add %q: %w", conf.Bridge, err)
	}
	return true, nil
}

// keep has a bridge that was there keep its MAC and MTU, which follow its ports unless they are set. Ports with
// the MACs of newPortMAC change nothing if there are others; without any, nothing is reached over it whose
// entries the kernel would forget with the MAC.
func (conf *config) keep(bridge *netlink.Bridge) error {
	if bridge.RawFlags&unix.IFF_LOWER_UP == 0 {
		if len(bridge.HardwareAddr) == 0 { // zeros, as the kernel leaves it after the last port
			bridge.HardwareAddr = links.NewMAC()
		}
		if err := netlink.LinkSetHardwareAddr(bridge, bridge.HardwareAddr); err != nil {
			return fmt.Errorf("could not set the MAC of %q: %w", conf.Bridge, err)
		}
	}
	return netns.KeepMTU(bridge, conf.MTU)
}

func bridgeByName(name string) (*netlink.Bridge, error) {
	link, err := netlinksafe.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("could not lookup %q: %w", name, err)
	}
	bridge, ok := link.(*netlink.Bridge)
	if !ok {
		return nil, fmt.Errorf("%q already exists but is not a bridge", name)
	}
	return bridge, nil
}

func (conf *config) connect(bridge *netlink.Bridge, link netlink.Link, vlan int, trunk []uint16) error {
	name := link.Attrs().Name
	if err := netlink.LinkSetMaster(link, bridge); err != nil {
		return fmt.Errorf("failed to connect %q to bridge %v: %w", name, bridge.Attrs().Name, err)
	}
	if conf.HairpinMode { // a new port has neither
		if err := netlink.LinkSetHairpin(link, true); err != nil {
			return fmt.Errorf("failed to setup hairpin mode for %v: %w", name, err)
		}
	}
	if conf.PortIsolation {
		if err := netlink.LinkSetIsolated(link, true); err != nil {
			return fmt.Errorf("failed to set isolated on for %v: %w", name, err)
		}
	}
	return setVLANs(link, vlan, trunk, conf.PreserveDefaultVLAN)
}

// addGateways gives the gateways of both families, IPv4 first, to the bridge, or to its port
// for the VLAN, and turns forwarding on.
func (conf *config) addGateways(c *plugin.Call, bridge *netlink.Bridge, gateways []net.IPNet, result *current.Result) error {
	unlock, err := bridges.Lock(c.Ctx, conf.Bridge)
	if err != nil {
		return err
	}
	defer unlock()
	for _, wantV4 := range []bool{true, false} {
		found := false
		for _, gateway := range gateways {
			if isV4 := gateway.IP.To4() != nil; isV4 != wantV4 {
				continue
			}
			found = true
			if err := conf.addGateway(bridge, gateway, result); err != nil {
				return err
			}
		}
		if found {
			if err := c.Forward(wantV4); err != nil {
				return fmt.Errorf("failed to enable forwarding: %w", err)
			}
		}
	}
	return nil
}

func (conf *config) addGateway(bridge *netlink.Bridge, gateway net.IPNet, result *current.Result) error {
	if conf.VLAN == 0 {
		if err := ensureAddress(bridge, gateway); err != nil {
			return fmt.Errorf("failed to set bridge addr: %w", err)
		}
		return nil
	}
	port, err := conf.ensureVLANPort(bridge)
	if err != nil {
		return fmt.Errorf("failed to create vlan interface: %w", err)
	}
	if len(result.Interfaces) == 3 {
		result.Interfaces = append(result.Interfaces, &current.Interface{Name: port.Attrs().Name, Mac: port.Attrs().HardwareAddr.String()})
	}
	if err := ensureAddress(port, gateway); err != nil {
		return fmt.Errorf("failed to set vlan interface for bridge with addr: %w", err)
	}
	return nil
}

// ensureAddress gives the link an address, which may be there with another length of the prefix. Another one of
// the same network is an error, also with forceAddress: it may be an operator's.
func ensureAddress(link netlink.Link, address net.IPNet) error {
	family := netlink.FAMILY_V6
	if address.IP.To4() != nil {
		family = netlink.FAMILY_V4
	}
	existing, err := links.Addresses(link, family)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("could not get list of IP addresses: %w", err)
	}
	if serves, err := servesNetwork(link, existing, address); err != nil || serves {
		return err
	}
	for _, other := range existing {
		if !other.Contains(address.IP) && !address.Contains(other.IP) {
			continue // of another network
		}
		return fmt.Errorf("%q already has an IP address different from %v: %v", link.Attrs().Name, address.String(), other.IPNet)
	}
	if err := links.AddHostAddress(link, &address); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("could not add IP address %s to %q: %w", address.String(), link.Attrs().Name, err)
	}
	// With a MAC of its own the bridge no longer takes that of its ports.
	if err := netlink.LinkSetHardwareAddr(link, link.Attrs().HardwareAddr); err != nil {
		return fmt.Errorf("could not set bridge's mac: %w", err)
	}
	return nil
}
