// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// Addresses and MACs that a request chooses, in whatever way, are checked here alone: each has to
// be one that nothing else has.

func (p *Plan) readChoices(r Request) error {
	for key, value := range r.Args {
		if strings.EqualFold(key, "GATEWAY") && !r.Operator {
			return &RequestError{"CNI argument " + key, value, "a job may not choose the gateway of a network: the host may have its address"}
		}
	}
	for i := range p.Added {
		added := &p.Added[i]
		args := maps.Clone(r.Args)
		if !added.network.UsesIPAM(func(ipam string) bool { return ipam != "" && ipam != "dhcp" }) {
			maps.DeleteFunc(args, func(key, _ string) bool { return strings.EqualFold(key, "IP") }) // nothing reads it
		}
		var err error
		if added.choice, err = selection.Choose(added.Element, args); err != nil {
			return fmt.Errorf("network %q as %s: %w", added.Element.Name, added.Element.Interface, err)
		}
		for _, address := range added.choice.Addresses {
			added.Attachment.Chosen = append(added.Attachment.Chosen, address.Addr().String())
		}
		added.Attachment.Chosen = append(added.Attachment.Chosen, added.choice.Hardware...)
	}
	return nil
}

// ChoosesAddresses tells whether the request chooses an address or a MAC.
func (p *Plan) ChoosesAddresses() bool {
	return slices.ContainsFunc(p.Added, func(a Attachment) bool { return len(a.Attachment.Chosen) > 0 })
}

func (p Attachment) refuseChoice(what, reason string) error {
	return &RequestError{fmt.Sprintf("address of network %q as %s", p.Element.Name, p.Element.Interface), what, reason}
}

// checkAddresses compares the addresses of the networks, and chosen ones, with those of the host.
func (p *Plan) checkAddresses(host Host) error {
	chooses := p.ChoosesAddresses()
	if !chooses && !slices.ContainsFunc(p.Added, func(a Attachment) bool { return len(a.network.HostAddresses()) > 0 }) {
		return nil
	}
	list := host.Addressed
	if chooses {
		list = host.Interfaces // any may have a MAC
	}
	links, err := list()
	if err != nil {
		return err
	}
	if chooses {
		if err := p.checkChosen(host, links); err != nil {
			return err
		}
	}
	for _, added := range p.Added { // that would give the host an address in a subnet that another link of it has
		for _, conflict := range added.network.SubnetConflicts(links) {
			if !conflict.Exists {
				return &RequestError{"network", added.network.Name, conflict.String() + ": choose another subnet in " + added.network.Path}
			}
		}
	}
	return nil
}

// checkChosen refuses chosen addresses that the networks cannot give, or that the host has.
func (p *Plan) checkChosen(host Host, links []netns.Interface) error {
	for i := range p.Added {
		p.Added[i].devices = namesOf(p.Added[i].network.Devices(), links)
	}
	for i, added := range p.Added {
		for _, check := range []func() error{
			added.checkPools, added.checkGateways,
			func() error { return added.checkHost(links) },
			func() error { return added.checkRouters(host) },
			func() error { return p.checkOwn(i) },
		} {
			if err := check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPools refuses addresses that no pool of the network can give.
func (p Attachment) checkPools() (err error) {
	for _, pool := range p.network.Pools() {
		if err = pool.CheckRequested(p.choice.Addresses); err == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("ips of network %q as %s: %w", p.Element.Name, p.Element.Interface, err)
	}
	return nil
}

// checkGateways refuses the gateways of a network without pools, and what is no host's address.
func (p Attachment) checkGateways() error {
	if len(p.network.Pools()) > 0 {
		return nil
	}
	gateways := p.network.Gateways()
	for _, address := range p.choice.Addresses {
		a, first := address.Addr(), address.Masked().Addr()
		switch {
		case cniconf.Special(a, a) != "":
			return p.refuseChoice(a.String(), "want a unicast address")
		case slices.Contains(gateways, a), p.network.IsGateway() && first.IsValid() && first.Next() == a:
			return p.refuseChoice(a.String(), "is the gateway of the network: choose another one")
		}
	}
	return nil
}

// checkHost refuses addresses and MACs of the host, and subnets of it of which the host would get
// another address and a route.
func (p Attachment) checkHost(links []netns.Interface) error {
	devices := p.network.Devices()
	routed := p.network.IsGateway() && len(p.network.Pools()) == 0
	for _, link := range links {
		own := slices.ContainsFunc(devices, func(d cniconf.Device) bool { return d.Bridge && link.IsNamed(d.Name) })
		if slices.Contains(p.choice.Hardware, link.MAC) {
			return p.refuseChoice(link.MAC, fmt.Sprintf("is the MAC of %s of this host: choose another one", link.Name))
		}
		for _, taken := range link.Addresses {
			for _, address := range p.choice.Addresses {
				if address.Addr() == taken.Addr() {
					return p.refuseChoice(address.Addr().String(), fmt.Sprintf("is an address of this host, on %s: choose another one", link.Name))
				}
				if routed && !own && address.IsValid() && address.Overlaps(taken) {
					return p.refuseChoice(address.String(), fmt.Sprintf("is in a subnet of this host, %s on %s, and the host is the gateway of the network: choose one of another subnet", taken.Masked(), link.Name))
				}
			}
		}
	}
	return nil
}

// checkRouters refuses the MACs of gateways: on a link with another one that has its MAC, the gateway is not reached.
func (p Attachment) checkRouters(host Host) error {
	if len(p.choice.Hardware) == 0 {
		return nil
	}
	gateways, err := host.GatewayMACs(p.network.Gateways())
	for _, mac := range p.choice.Hardware {
		if gateway, ok := gateways[mac]; ok {
			return p.refuseChoice(mac, fmt.Sprintf("is the MAC of the gateway %s: choose another one", gateway))
		}
	}
	return err
}

// checkOwn refuses what another attachment of the allocation has.
func (p *Plan) checkOwn(i int) error {
	for _, other := range p.Existing {
		if err := p.Added[i].checkTaken("interface "+other.Interface, other); err != nil {
			return err
		}
	}
	for j, other := range p.Added {
		if j == i || !p.Added[i].sharesDevice(other.network) {
			continue
		}
		if err := p.Added[i].refuseTaken("interface "+other.Element.Interface, *other.Attachment); err != nil {
			return err
		}
	}
	return nil
}

// checkTaken refuses what an attachment on the same network, or on its link, has.
func (p Attachment) checkTaken(holder string, a state.Attachment) error {
	if len(p.Attachment.Chosen) == 0 || !p.sharesLink(a) {
		return nil
	}
	return p.refuseTaken(holder, a)
}

func (p Attachment) refuseTaken(holder string, a state.Attachment) error {
	taken, err := addressesOf(a)
	if err != nil {
		return fmt.Errorf("addresses of %s: %w", holder, err)
	}
	for _, chosen := range p.Attachment.Chosen {
		if slices.Contains(taken, chosen) {
			return p.refuseChoice(chosen, fmt.Sprintf("%s has it on network %q: choose another one", holder, a.Network))
		}
	}
	return nil
}

// namesOf returns all names of bridges and masters: two networks may have different ones of one link.
func namesOf(devices []cniconf.Device, links []netns.Interface) (names []string) {
	for _, d := range devices {
		names = append(names, d.Name)
		for _, link := range links {
			if link.IsNamed(d.Name) {
				names = append(append(names, link.Name), link.AlternativeNames...)
			}
		}
	}
	return names
}

// sharesLink tells whether an attachment is on the network, or on another one with its bridge or
// master.
func (p Attachment) sharesLink(a state.Attachment) bool {
	if a.Network == p.network.Name {
		return true
	}
	list, err := cniconf.ParseList(a.ConfList)
	if err != nil {
		return false // it was never attached
	}
	return p.sharesDevice(&cniconf.Network{Name: a.Network, List: list})
}

// sharesDevice tells whether two networks are one, or have a bridge or master in common. One
// without a name is that of the default route, which may be any of them.
func (p Attachment) sharesDevice(other *cniconf.Network) bool {
	return p.network.Name == other.Name || slices.ContainsFunc(other.Devices(), func(d cniconf.Device) bool {
		return slices.ContainsFunc(p.devices, func(own string) bool { return own == d.Name || own == "" || d.Name == "" })
	})
}

// addressesOf returns the addresses and MACs that an attachment has, or may have soon.
func addressesOf(a state.Attachment) ([]string, error) {
	taken := slices.Clone(a.Chosen)
	if a.Result == nil {
		return taken, nil
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return nil, err
	}
	for _, address := range onrecord.Addresses(result) {
		taken = append(taken, address.Addr().String())
	}
	for _, i := range result.Interfaces {
		if i.Sandbox != "" {
			taken = append(taken, strings.ToLower(i.Mac))
		}
	}
	return taken, nil
}

// CheckChosen refuses what attachments of another allocation have.
func (p *Plan) CheckChosen(record state.Record) error {
	for _, a := range record.Attachments {
		for _, added := range p.Added {
			if err := added.checkTaken("allocation "+record.Allocation.ID, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// NeedsRecords tells whether only records tell of something chosen who has it: of a MAC, and of
// an address without a pool.
func (p *Plan) NeedsRecords() bool {
	return slices.ContainsFunc(p.Added, func(a Attachment) bool {
		return len(a.choice.Hardware) > 0 || len(a.choice.Addresses) > 0 && len(a.network.Pools()) == 0
	})
}
