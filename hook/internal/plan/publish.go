// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// publishBoth adds ports on the addresses of the other family of each interface with an address that ports are published on, if the
// network wants that. A scheduler knows one address of a host.
func (p *Attachment) publishBoth(ports []portmap.Port, host Host) ([]portmap.Port, selection.Element, error) {
	element := p.Element
	if p.rules.Publish != policy.PublishBoth || len(ports)+len(element.PortMappings) == 0 {
		return ports, element, nil
	}
	interfaces, err := host.Interfaces()
	if err != nil {
		return nil, element, err
	}
	element.PortMappings = onBoth(element.PortMappings, interfaces, func(p *allocation.ChosenPort) *string { return &p.HostIP })
	return onBoth(ports, interfaces, func(p *portmap.Port) *string { return &p.HostIP }), element, nil
}

// publishOn has ports published on these addresses, each on all of them, in place of that which a scheduler chose. Others choose none.
func publishOn(addresses []netip.Addr, ports []portmap.Port, element selection.Element, byScheduler bool) ([]portmap.Port, selection.Element, error) {
	var assigned []portmap.Port
	var chosen []allocation.ChosenPort
	for _, address := range addresses {
		for _, port := range ports {
			if port.HostIP != "" && !byScheduler {
				return nil, element, publishedElsewhere(port.HostIP, addresses)
			}
			port.HostIP = address.String()
			assigned = append(assigned, port)
		}
		for _, port := range element.PortMappings {
			if port.HostIP != "" {
				return nil, element, publishedElsewhere(port.HostIP, addresses)
			}
			port.HostIP = address.String()
			chosen = append(chosen, port)
		}
	}
	element.PortMappings = chosen
	return assigned, element, nil
}

// refusePublished refuses ports that were chosen on an address that a network publishes ports on, or that the host has for one: the
// allocation that has the address has all its ports, also if another host has it now. ports are those of an operator.
func (p *Attachment) refusePublished(ports []portmap.Port, f Facts) error {
	var chosen []string
	for _, port := range ports {
		chosen = append(chosen, port.HostIP)
	}
	for _, port := range p.Element.PortMappings {
		chosen = append(chosen, port.HostIP)
	}
	if chosen = slices.DeleteFunc(chosen, func(hostIP string) bool { return hostIP == "" }); len(chosen) == 0 {
		return nil
	}
	interfaces, err := f.Host.Interfaces()
	if err != nil {
		return err
	}
	published, err := f.PublishedAddresses()
	if err != nil {
		return err
	}
	for _, hostIP := range chosen {
		address, err := netip.ParseAddr(hostIP)
		if err != nil {
			continue // refused with the port
		}
		address = address.Unmap()
		if file, isPublished := published[address]; isPublished {
			return &RequestError{"hostIP", hostIP, fmt.Sprintf("is for the ports of other allocations (publishAddress in %s), and moves between hosts: choose another address", file)}
		}
		if slices.ContainsFunc(interfaces, func(i netns.Interface) bool { return slices.Contains(i.Published, address) }) {
			return &RequestError{"hostIP", hostIP, "the host has it for the ports of another allocation (publishAddress): choose another address"}
		}
	}
	return nil
}

func publishedElsewhere(hostIP string, addresses []netip.Addr) error {
	return &RequestError{"hostIP", hostIP, fmt.Sprintf("the network publishes ports on %v: omit it", addresses)}
}

// onBoth adds each port on the addresses of the other family. What is there already is left out: who asks may publish a port on both
// families itself.
func onBoth[T comparable](ports []T, interfaces []netns.Interface, hostIP func(*T) *string) []T {
	var all []T
	add := func(port T) {
		if !slices.Contains(all, port) {
			all = append(all, port)
		}
	}
	for _, port := range ports {
		add(port)
		for _, other := range otherFamily(*hostIP(&port), interfaces) {
			*hostIP(&port) = other
			add(port)
		}
	}
	return all
}

// otherFamily returns the addresses of the other family of the interface that has an address: none for those of the loopback
// interface, from which IPv6 packets do not leave, and for all addresses, which are of both. Those that are published for another
// allocation are its alone, and move with it.
func otherFamily(hostIP string, interfaces []netns.Interface) (others []string) {
	address, err := netip.ParseAddr(hostIP)
	if address = address.Unmap(); err != nil || address.IsLoopback() {
		return nil
	}
	switch address {
	case netip.IPv4Unspecified():
		return []string{netip.IPv6Unspecified().String()}
	case netip.IPv6Unspecified():
		return []string{netip.IPv4Unspecified().String()}
	}
	for _, i := range interfaces {
		if !slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == address }) {
			continue
		}
		for _, p := range i.Addresses {
			if a := p.Addr(); a.Is4() != address.Is4() && !a.IsLoopback() && !slices.Contains(i.Published, a) {
				others = append(others, a.String())
			}
		}
	}
	return others
}
