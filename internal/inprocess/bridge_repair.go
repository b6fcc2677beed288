// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/allocnet/allocnet/internal/netns"
)

// repairBridge repairs the interface inside, the bridge with its gateways and the port, and the
// masquerading.
func repairBridge(c *call) error {
	conf, err := parseBridge(c)
	if err != nil {
		return err
	}
	result, err := c.requirePrevResult()
	if err != nil {
		return err
	}
	port, err := c.hostEnd(result)
	if err != nil || port == nil {
		return err
	}
	if conf, err = conf.where(c, result, port); err != nil { // before anything is made
		return err
	}
	if err := c.repair.ensureUp(port); err != nil { // without it the other end has no carrier
		return err
	}
	if !conf.DisableInterface {
		err = c.repairInside(result, insideRepair{kind: "veth", direct: true})
		if len(c.repair.Unrepairable) > 0 {
			return err
		}
	}
	if err := errors.Join(err, conf.repairHost(c, result, port)); err != nil {
		return err
	}
	if !conf.IPMasq || conf.IPAM.Type == "" {
		return nil
	}
	return c.repairMasquerade(masquerade{conf.IPMasqBackend, networks(result), c.network, c.ifName, c.containerID})
}

// repairHost repairs what the attachment has on the host.
func (conf *bridgeConfig) repairHost(c *call, result *current.Result, port netlink.Link) error {
	bridge, err := conf.repairLink(c, result)
	if err != nil {
		return err
	}
	if err := conf.repairGateways(c, bridge, result); err != nil {
		return err
	}
	return conf.repairPort(c.repair, bridge, port, conf.VLAN, conf.trunk)
}

// repairLink returns the bridge; nil if it is missing and nothing is to be made.
func (conf *bridgeConfig) repairLink(c *call, result *current.Result) (*netlink.Bridge, error) {
	link, err := findLink(conf.Bridge)
	if err != nil {
		return nil, err
	}
	var bridge *netlink.Bridge
	if link == nil {
		err := c.repair.ensure("bridge "+conf.Bridge, func() (err error) {
			bridge, err = conf.ensureBridge(c, conf.recordedMAC(result))
			return err
		})
		return bridge, err
	}
	if bridge, err = bridgeByName(conf.Bridge); err != nil {
		return nil, err
	}
	return bridge, conf.repairSettings(c.repair, bridge)
}

// recordedMAC is what the bridge had: the neighbors remember it, so with another one they would
// not reach their gateway for a while. nil: the kernel chooses, as it does for bridges without
// an address.
func (conf *bridgeConfig) recordedMAC(result *current.Result) net.HardwareAddr {
	recorded := find(result, conf.Bridge, "")
	if !conf.IsGateway || conf.VLAN != 0 || recorded == nil {
		return nil
	}
	mac, err := net.ParseMAC(recorded.Mac)
	if err != nil {
		return nil
	}
	return mac
}

// repairSettings repairs a bridge that exists. Its MTU follows its smallest port unless another
// program has set it: lower than the network's, it drops packets that the ports take.
func (conf *bridgeConfig) repairSettings(r *Repair, bridge *netlink.Bridge) error {
	var errs []error
	if conf.PromiscMode && bridge.Promisc == 0 {
		errs = append(errs, r.ensure("promiscuous mode of "+conf.Bridge, func() error { return netlink.SetPromiscOn(bridge) }))
	}
	if filtering := bridge.VlanFiltering; (conf.VLAN != 0 || conf.VLANTrunk != nil) && filtering != nil && !*filtering {
		errs = append(errs, r.ensure("VLAN filtering of "+conf.Bridge, func() error { return netlink.BridgeSetVlanFiltering(bridge, true) }))
	}
	return errors.Join(append(errs, conf.repairMTU(r, bridge), r.ensureUp(bridge))...)
}

func (conf *bridgeConfig) repairMTU(r *Repair, bridge *netlink.Bridge) error {
	if bridge.MTU >= conf.MTU {
		return nil
	}
	if smaller, err := hasSmallerPort(bridge, conf.MTU); err != nil || smaller {
		return err
	}
	what := fmt.Sprintf("MTU of %s is %d, the network has %d", conf.Bridge, bridge.MTU, conf.MTU)
	return r.ensure(what, func() error { return netlink.LinkSetMTU(bridge, conf.MTU) })
}

// hasSmallerPort tells whether a bridge follows a port with an MTU below that of a network.
func hasSmallerPort(bridge *netlink.Bridge, mtu int) (bool, error) {
	ports, err := netns.PortsOf(bridge)
	return slices.ContainsFunc(ports, func(port netlink.Link) bool { return port.Attrs().MTU < mtu }), err
}

// repairGateways repairs the addresses of the bridge, or of its port for the VLAN, and
// forwarding.
func (conf *bridgeConfig) repairGateways(c *call, bridge *netlink.Bridge, result *current.Result) error {
	if !conf.IsGateway {
		return nil
	}
	if err := conf.repairVLANPort(c.repair, bridge); err != nil {
		return err
	}
	for _, gateway := range c.recordedGateways(result) {
		if err := conf.repairGateway(c.repair, bridge, gateway); err != nil {
			return err
		}
		if err := c.repairForwarding(isIPv4(gateway.IP)); err != nil {
			return err
		}
	}
	return nil
}

// recordedGateways returns the addresses that the bridge of a result has.
func (c *call) recordedGateways(result *current.Result) (gateways []net.IPNet) {
	for _, address := range c.own(result) {
		gateway := net.IPNet{IP: address.Gateway, Mask: address.Address.Mask}
		if gateway.IP == nil {
			gateway.IP = firstAddress(address.Address)
		}
		gateways = append(gateways, gateway)
	}
	return gateways
}

// gatewayLink is the name of the link that has the gateways.
func (conf *bridgeConfig) gatewayLink() string {
	if conf.VLAN != 0 {
		return cmp.Or(conf.vlanPort, fmt.Sprintf("%s.%d", conf.Bridge, conf.VLAN))
	}
	return conf.Bridge
}

func (conf *bridgeConfig) repairGateway(r *Repair, bridge *netlink.Bridge, gateway net.IPNet) error {
	bridges.Lock()
	defer bridges.Unlock()
	link, err := findLink(conf.gatewayLink())
	if err != nil {
		return err
	}
	if link != nil {
		present, err := addressesOf(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		if serves, err := servesNetwork(link, present, gateway); err != nil || serves {
			return err
		}
	}
	what := fmt.Sprintf("address %s of %s", gateway.String(), conf.gatewayLink())
	return r.ensure(what, func() error { return conf.addGateway(bridge, gateway, &current.Result{}) })
}

// repairVLANPort makes the port for the VLAN that exists a port of the bridge again.
func (conf *bridgeConfig) repairVLANPort(r *Repair, bridge *netlink.Bridge) error {
	if conf.VLAN == 0 {
		return nil
	}
	link, err := findLink(conf.gatewayLink())
	if err != nil || link == nil {
		return err
	}
	port, err := netlink.LinkByIndex(link.Attrs().ParentIndex)
	if err != nil {
		return err
	}
	plain := &bridgeConfig{Bridge: conf.Bridge, PreserveDefaultVLAN: conf.PreserveDefaultVLAN}
	return errors.Join(plain.repairPort(r, bridge, port, conf.VLAN, nil), r.ensureUp(port), r.ensureUp(link))
}

// repairPort makes a link a port of the bridge, with its settings.
func (conf *bridgeConfig) repairPort(r *Repair, bridge *netlink.Bridge, port netlink.Link, vlan int, trunk []uint16) error {
	name := port.Attrs().Name
	if err := refuseOtherMaster(bridge, port); err != nil {
		return err
	}
	if bridge == nil || port.Attrs().MasterIndex != bridge.Index {
		return r.ensure(fmt.Sprintf("port %s of the bridge %s", name, conf.Bridge), func() error { return conf.connect(bridge, port, vlan, trunk) })
	}
	settings, err := netlink.LinkGetProtinfo(port)
	if err != nil {
		return fmt.Errorf("settings of the port %s: %w", name, err)
	}
	if settings.Hairpin != conf.HairpinMode {
		err = r.ensure("hairpin mode of the port "+name, func() error { return netlink.LinkSetHairpin(port, conf.HairpinMode) })
	}
	if settings.Isolated != conf.PortIsolation {
		err = errors.Join(err, r.ensure("isolation of the port "+name, func() error { return netlink.LinkSetIsolated(port, conf.PortIsolation) }))
	}
	return errors.Join(err, repairVLANs(r, port, vlan, trunk))
}

// refuseOtherMaster refuses a port that an operator has given to another bridge, for example to take an
// allocation off the network.
func refuseOtherMaster(bridge *netlink.Bridge, port netlink.Link) error {
	master := port.Attrs().MasterIndex
	if master == 0 || bridge != nil && master == bridge.Index {
		return nil
	}
	return otherMaster(port)
}

func otherMaster(port netlink.Link) error {
	return fmt.Errorf("%s is a port of %s, which another program has made it: remove it from there to have it back in its bridge", port.Attrs().Name, linkName(port.Attrs().MasterIndex))
}

// repairVLANs adds the VLANs that a port lacks.
func repairVLANs(r *Repair, port netlink.Link, vlan int, trunk []uint16) error {
	wanted := slices.Clone(trunk)
	if vlan != 0 {
		wanted = append(wanted, uint16(vlan))
	} else if len(trunk) > 0 {
		wanted = append(wanted, 1) // the native VLAN of a trunk
	}
	if len(wanted) == 0 {
		return nil
	}
	ports, err := netns.Whole(netlink.BridgeVlanList)
	if err != nil {
		return err
	}
	for _, id := range wanted {
		if slices.ContainsFunc(ports[int32(port.Attrs().Index)], func(info *nl.BridgeVlanInfo) bool { return info.Vid == id }) {
			continue
		}
		untagged := int(id) == vlan || vlan == 0 && id == 1
		what := fmt.Sprintf("VLAN %d of the port %s", id, port.Attrs().Name)
		if err := r.ensure(what, func() error { return netlink.BridgeVlanAdd(port, id, untagged, untagged, false, true) }); err != nil {
			return err
		}
	}
	return nil
}
