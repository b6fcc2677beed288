// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// Bridge is a bridge of the caller's namespace.
type Bridge struct {
	MTU int
	// Ports is the number of links that are attached to it.
	Ports int
}

// FindBridge returns a bridge; ok is false when there is none of that name.
func FindBridge(name string) (b Bridge, ok bool, err error) {
	link, err := linkNamed(name)
	if err != nil || link == nil || link.Type() != "bridge" {
		return Bridge{}, false, err
	}
	ports, err := PortsOf(link)
	return Bridge{MTU: link.Attrs().MTU, Ports: len(ports)}, err == nil, err
}

// PortsOf returns the ports of a bridge.
func PortsOf(bridge netlink.Link) ([]netlink.Link, error) {
	links, err := Whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list the ports of %s: %w", bridge.Attrs().Name, err)
	}
	return slices.DeleteFunc(links, func(l netlink.Link) bool { return l.Attrs().MasterIndex != bridge.Attrs().Index }), nil
}

// PortNames returns the names of the ports of a bridge that are no ends of veth pairs; none if there is no such bridge.
func PortNames(bridgeName string) (names []string, err error) {
	link, err := linkNamed(bridgeName)
	if err != nil || link == nil {
		return nil, err
	}
	ports, err := PortsOf(link)
	for _, port := range ports {
		if port.Type() != "veth" {
			names = append(names, port.Attrs().Name)
		}
	}
	return names, err
}

// defaultMTU is that of a veth.
const defaultMTU = 1500

// KeepMTU has a bridge that was there keep its MTU when it gets a port with another one; 0 is that of a veth. It follows its
// ports unless it is set. It is kept if a port is none of CNI plugins, or there is none and it is not that which the kernel
// then chooses: the bridge is the operator's.
func KeepMTU(bridge netlink.Link, portMTU int) error {
	mtu := bridge.Attrs().MTU
	if cmp.Or(portMTU, defaultMTU) >= mtu {
		return nil
	}
	ports, err := PortsOf(bridge)
	isOther := func(port netlink.Link) bool { return !IsPluginVeth(port.Attrs().Name) }
	isSet := slices.ContainsFunc(ports, func(port netlink.Link) bool { return port.Attrs().MTU < mtu })
	if err != nil || isSet || len(ports) > 0 && !slices.ContainsFunc(ports, isOther) || len(ports) == 0 && mtu == defaultMTU {
		return err
	}
	return PinMTU(bridge.Attrs().Name, mtu)
}

// KeepBridge has a bridge keep its MAC and MTU when a plugin gives it a port with an MTU, and returns its accept_ra, which the
// plugin changes; empty if there is no such bridge, or no IPv6.
func KeepBridge(name string, portMTU int) (acceptRA string, err error) {
	link, err := linkNamed(name)
	if err != nil || link == nil || link.Type() != "bridge" {
		return "", err
	}
	if err := errors.Join(pinMAC(link), KeepMTU(link, portMTU)); err != nil {
		return "", err
	}
	var s sysctl.Tree
	return files.IfExists(s.Get(acceptRAOf(name)))
}

// pinMAC has a bridge keep its MAC: by itself it takes the lowest of its ports. One without a MAC waits for that of a port.
func pinMAC(bridge netlink.Link) error {
	const set = "3" // NET_ADDR_SET of the kernel
	name, mac := bridge.Attrs().Name, bridge.Attrs().HardwareAddr
	assigned, err := os.ReadFile("/sys/class/net/" + name + "/addr_assign_type")
	if err == nil && strings.TrimSpace(string(assigned)) == set || len(mac) == 0 {
		return nil // the kernel would forget what it knows of neighbours
	}
	if err := netlink.LinkSetHardwareAddr(bridge, mac); err != nil {
		return fmt.Errorf("set the MAC of %s: %w", name, err)
	}
	return nil
}

// RestoreBridge sets the accept_ra that a bridge had before a plugin has set it to 0. Another value was set since then.
func RestoreBridge(name, acceptRA string) error {
	var s sysctl.Tree
	now, err := s.Get(acceptRAOf(name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && now != "0" {
		return nil
	}
	return errors.Join(err, setExisting(&s, acceptRAOf(name), acceptRA))
}

func acceptRAOf(link string) string { return "net/ipv6/conf/" + link + "/accept_ra" }

// PinMTU sets the MTU of a bridge permanently. Until it is set for the first time a
// bridge has the smallest MTU of its ports, and setting the same value has no effect:
// another value is set first, a larger one where possible, because below 1280 the
// kernel removes IPv6 addresses.
func PinMTU(name string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("set the MTU of %s: %w", name, err)
	}
	steps := []int{mtu}
	if link.Attrs().MTU == mtu {
		other := mtu + 1
		if mtu == 65535 {
			other = mtu - 1
		}
		steps = []int{other, mtu}
	}
	for _, step := range steps {
		if err := netlink.LinkSetMTU(link, step); err != nil {
			return fmt.Errorf("set the MTU of %s to %d: %w", name, step, err)
		}
	}
	return nil
}

// LinkMTU returns the MTU of a link of the caller's namespace; ok is false when
// there is none of that name.
func LinkMTU(name string) (mtu int, ok bool, err error) {
	link, err := linkNamed(name)
	if err != nil || link == nil {
		return 0, false, err
	}
	return link.Attrs().MTU, true, nil
}
