// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/allocnet/allocnet/internal/inprocess/iface"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/masquerade"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/netns"
)

// repair repairs the interface inside, the bridge with its gateways and the port, and the
// masquerading.
func repair(c *plugin.Call) error {
	conf, err := parse(c)
	if err != nil {
		return err
	}
	result, err := c.RequirePrevResult()
	if err != nil {
		return err
	}
	port, err := iface.HostEnd(c, result)
	if err != nil || port == nil {
		return err
	}
	if conf, err = conf.where(c, result, port); err != nil { // before anything is made
		return err
	}
	if err := remedy.EnsureUp(c.Repair, port); err != nil { // without it the other end has no carrier
		return err
	}
	if !conf.DisableInterface {
		err = iface.Repair(c, result, iface.How{Kind: "veth", Direct: true})
		if len(c.Repair.Unrepairable) > 0 {
			return err
		}
	}
	if err := errors.Join(err, conf.repairHost(c, result, port)); err != nil {
		return err
	}
	if !conf.IPMasq || conf.IPAM.Type == "" {
		return nil
	}
	return masquerade.Repair(c, masquerade.Options{Backend: conf.IPMasqBackend, Egress: conf.EgressAddress}, plugin.Networks(result))
}

func (conf *config) repairHost(c *plugin.Call, result *current.Result, port netlink.Link) error {
	bridge, err := conf.repairLink(c, result)
	if err != nil {
		return err
	}
	if err := conf.repairGateways(c, bridge, result); err != nil {
		return err
	}
	return conf.repairPort(c.Repair, bridge, port, conf.VLAN, conf.trunk)
}

// repairLink returns the bridge; nil if it is missing and nothing is to be made.
func (conf *config) repairLink(c *plugin.Call, result *current.Result) (*netlink.Bridge, error) {
	link, err := links.Find(conf.Bridge)
	if err != nil {
		return nil, err
	}
	var bridge *netlink.Bridge
	if link == nil {
		err := c.Repair.Ensure("bridge "+conf.Bridge, func() (err error) {
			bridge, err = conf.ensureBridge(c, conf.recordedMAC(result))
			return err
		})
		return bridge, err
	}
	if bridge, err = bridgeByName(conf.Bridge); err != nil {
		return nil, err
	}
	return bridge, conf.repairSettings(c.Repair, bridge)
}

// recordedMAC is what the bridge had: the neighbors remember it, so with another one they would
// not reach their gateway for a while. nil: the kernel chooses, as it does for bridges without
// an address.
func (conf *config) recordedMAC(result *current.Result) net.HardwareAddr {
	recorded := plugin.Find(result, conf.Bridge, "")
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
func (conf *config) repairSettings(r *remedy.Repair, bridge *netlink.Bridge) error {
	var errs []error
	if conf.PromiscMode && bridge.Promisc == 0 {
		errs = append(errs, r.Ensure("promiscuous mode of "+conf.Bridge, func() error { return netlink.SetPromiscOn(bridge) }))
	}
	if filtering := bridge.VlanFiltering; (conf.VLAN != 0 || conf.VLANTrunk != nil) && filtering != nil && !*filtering {
		errs = append(errs, r.Ensure("VLAN filtering of "+conf.Bridge, func() error { return netlink.BridgeSetVlanFiltering(bridge, true) }))
	}
	return errors.Join(append(errs, conf.repairMTU(r, bridge), remedy.EnsureUp(r, bridge))...)
}

func (conf *config) repairMTU(r *remedy.Repair, bridge *netlink.Bridge) error {
	if bridge.MTU >= conf.MTU {
		return nil
	}
	if smaller, err := hasSmallerPort(bridge, conf.MTU); err != nil || smaller {
		return err
	}
	what := fmt.Sprintf("MTU of %s is %d, the network has %d", conf.Bridge, bridge.MTU, conf.MTU)
	return r.Ensure(what, func() error { return netlink.LinkSetMTU(bridge, conf.MTU) })
}

// hasSmallerPort tells whether a bridge follows a port with an MTU below that of a network.
func hasSmallerPort(bridge *netlink.Bridge, mtu int) (bool, error) {
	ports, err := netns.PortsOf(bridge)
	return slices.ContainsFunc(ports, func(port netlink.Link) bool { return port.Attrs().MTU < mtu }), err
}

// repairGateways repairs the addresses of the bridge, or of its port for the VLAN, and
// forwarding.
func (conf *config) repairGateways(c *plugin.Call, bridge *netlink.Bridge, result *current.Result) error {
	if !conf.IsGateway {
		return nil
	}
	if err := conf.repairVLANPort(c.Repair, bridge); err != nil {
		return err
	}
	for _, gateway := range recordedGateways(c, result) {
		if err := conf.repairGateway(c, bridge, gateway); err != nil {
			return err
		}
		if err := c.RepairForwarding(links.IsIPv4(gateway.IP)); err != nil {
			return err
		}
	}
	return nil
}

func recordedGateways(c *plugin.Call, result *current.Result) (gateways []net.IPNet) {
	for _, address := range iface.Addresses(c, result) {
		gateway := net.IPNet{IP: address.Gateway, Mask: address.Address.Mask}
		if gateway.IP == nil {
			gateway.IP = firstAddress(address.Address)
		}
		gateways = append(gateways, gateway)
	}
	return gateways
}

func (conf *config) gatewayLink() string {
	if conf.VLAN != 0 {
		return cmp.Or(conf.vlanPort, fmt.Sprintf("%s.%d", conf.Bridge, conf.VLAN))
	}
	return conf.Bridge
}

func (conf *config) repairGateway(c *plugin.Call, bridge *netlink.Bridge, gateway net.IPNet) error {
	unlock, err := bridges.Lock(c.Ctx, conf.Bridge)
	if err != nil {
		return err
	}
	defer unlock()
	link, err := links.Find(conf.gatewayLink())
	if err != nil {
		return err
	}
	if link != nil {
		present, err := links.Addresses(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		if serves, err := servesNetwork(link, present, gateway); err != nil || serves {
			return err
		}
	}
	what := fmt.Sprintf("address %s of %s", gateway.String(), conf.gatewayLink())
	return c.Repair.Ensure(what, func() error { return conf.addGateway(bridge, gateway, &current.Result{}) })
}

// repairVLANPort makes the port for the VLAN that exists a port of the bridge again.
func (conf *config) repairVLANPort(r *remedy.Repair, bridge *netlink.Bridge) error {
	if conf.VLAN == 0 {
		return nil
	}
	link, err := links.Find(conf.gatewayLink())
	if err != nil || link == nil {
		return err
	}
	port, err := netlink.LinkByIndex(link.Attrs().ParentIndex)
	if err != nil {
		return err
	}
	plain := &config{Bridge: conf.Bridge, PreserveDefaultVLAN: conf.PreserveDefaultVLAN}
	return errors.Join(plain.repairPort(r, bridge, port, conf.VLAN, nil), remedy.EnsureUp(r, port), remedy.EnsureUp(r, link))
}

// repairPort makes a link a port of the bridge, with its settings.
func (conf *config) repairPort(r *remedy.Repair, bridge *netlink.Bridge, port netlink.Link, vlan int, trunk []uint16) error {
	name := port.Attrs().Name
	if err := refuseOtherMaster(bridge, port); err != nil {
		return err
	}
	if bridge == nil || port.Attrs().MasterIndex != bridge.Index {
		return r.Ensure(fmt.Sprintf("port %s of the bridge %s", name, conf.Bridge), func() error { return conf.connect(bridge, port, vlan, trunk) })
	}
	now, err := settingsOf(port)
	if err != nil {
		return err
	}
	if now.hairpin != conf.HairpinMode {
		err = r.Ensure("hairpin mode of the port "+name, func() error { return netlink.LinkSetHairpin(port, conf.HairpinMode) })
	}
	if now.isolated != conf.PortIsolation {
		err = errors.Join(err, r.Ensure("isolation of the port "+name, func() error { return netlink.LinkSetIsolated(port, conf.PortIsolation) }))
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
	return fmt.Errorf("%s is a port of %s, which another program has made it: remove it from there to have it back in its bridge", port.Attrs().Name, links.NameOf(port.Attrs().MasterIndex))
}

func repairVLANs(r *remedy.Repair, port netlink.Link, vlan int, trunk []uint16) error {
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
		if err := r.Ensure(what, func() error { return netlink.BridgeVlanAdd(port, id, untagged, untagged, false, true) }); err != nil {
			return err
		}
	}
	return nil
}
