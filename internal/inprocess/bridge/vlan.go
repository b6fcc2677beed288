// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/netns"
)

const maxVLAN = 4094

// vlanRange is an element of vlanTrunk: a range, an ID, or both.
type vlanRange struct {
	MinID *int `json:"minID"`
	MaxID *int `json:"maxID"`
	ID    *int `json:"id"`
}

func vlanIDs(trunk []vlanRange) ([]uint16, error) {
	var ids []uint16
	for _, r := range trunk {
		if err := r.validate(); err != nil {
			return nil, err
		}
		if r.MinID != nil {
			for id := *r.MinID; id <= *r.MaxID; id++ {
				ids = append(ids, uint16(id))
			}
		}
		if r.ID != nil {
			ids = append(ids, uint16(*r.ID))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func (r vlanRange) validate() error {
	valid := func(id *int) bool { return *id > 0 && *id <= maxVLAN }
	switch {
	case r.MinID == nil && r.MaxID != nil:
		return errors.New("minID and maxID should be configured simultaneously, minID is missing")
	case r.MinID != nil && r.MaxID == nil:
		return errors.New("minID and maxID should be configured simultaneously, maxID is missing")
	case r.MinID != nil && !valid(r.MinID):
		return errors.New("incorrect trunk minID parameter")
	case r.MaxID != nil && !valid(r.MaxID):
		return errors.New("incorrect trunk maxID parameter")
	case r.MinID != nil && *r.MaxID < *r.MinID:
		return errors.New("minID is greater than maxID in trunk parameter")
	case r.ID != nil && !valid(r.ID):
		return errors.New("incorrect trunk id parameter")
	}
	return nil
}

// setVLANs sets the VLANs of a port: one that is untagged, and those of a trunk.
func setVLANs(port netlink.Link, vlan int, trunk []uint16, preserveDefault bool) error {
	if vlan == 0 && len(trunk) == 0 {
		return nil
	}
	if !preserveDefault {
		if err := removeVLANs(port); err != nil {
			return fmt.Errorf("failed to remove default vlan on interface %q: %w", port.Attrs().Name, err)
		}
	}
	if vlan != 0 {
		if err := netlink.BridgeVlanAdd(port, uint16(vlan), true, true, false, true); err != nil {
			return fmt.Errorf("failed to setup vlan tag on interface %q: %w", port.Attrs().Name, err)
		}
	}
	for _, id := range trunk {
		if err := netlink.BridgeVlanAdd(port, id, false, false, false, true); err != nil {
			return fmt.Errorf("failed to setup vlan tag on interface %q: %w", port.Attrs().Name, err)
		}
	}
	if vlan != 0 {
		return nil
	}
	if err := netlink.BridgeVlanAdd(port, 1, true, true, false, true); err != nil { // the native VLAN of a trunk
		return fmt.Errorf("failed to setup default native vlan tag on interface %q: %w", port.Attrs().Name, err)
	}
	return nil
}

func removeVLANs(port netlink.Link) error {
	ports, err := netns.Whole(netlink.BridgeVlanList)
	if err != nil {
		return err
	}
	for _, info := range ports[int32(port.Attrs().Index)] {
		if err := netlink.BridgeVlanDel(port, info.Vid, false, false, false, true); err != nil {
			return err
		}
	}
	return nil
}

// ensureVLANPort returns the port of the bridge that has the gateways of the VLAN: one end of
// a veth pair in the host's namespace, BRIDGE.VLAN unless that bridge has been renamed since.
func (conf *config) ensureVLANPort(bridge *netlink.Bridge) (netlink.Link, error) {
	name := cmp.Or(conf.vlanPort, fmt.Sprintf("%s.%d", bridge.Name, conf.VLAN))
	link, err := netlinksafe.LinkByName(name)
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); !missing {
		return link, err
	}
	host, err := ns.GetCurrentNS()
	if err != nil {
		return nil, fmt.Errorf("failed to find host namespace: %w", err)
	}
	defer host.Close() //nolint:errcheck // read only
	veth := links.NewVeth(name, "", bridge.MTU, host)
	veth.Group = netns.LinkGroup
	if _, err := links.MakeVeth(veth); err != nil {
		return nil, err
	}
	port, err := netlinksafe.LinkByName(veth.PeerName)
	if err != nil {
		return nil, fmt.Errorf("failed to lookup %q: %w", veth.PeerName, err)
	}
	if err := netlink.LinkSetUp(port); err != nil {
		return nil, fmt.Errorf("failed to set %q up: %w", veth.PeerName, err)
	}
	plain := &config{PreserveDefaultVLAN: conf.PreserveDefaultVLAN}
	if err := plain.connect(bridge, port, conf.VLAN, nil); err != nil {
		return nil, fmt.Errorf("failed to create vlan gateway %q: %w", name, err)
	}
	if err := links.SetUp(name); err != nil {
		return nil, err
	}
	return netlinksafe.LinkByName(name)
}
