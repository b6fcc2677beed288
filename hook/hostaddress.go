// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// checkSubnets refuses networks that would give the host an address in a subnet that another link of it has.
func (p *plan) checkSubnets(links []netns.Interface) error {
	for _, added := range p.added {
		for _, conflict := range SubnetConflicts(added.network, links) {
			if !conflict.Exists {
				return &RequestError{"network", added.network.Name, conflict.String() + ": choose another subnet in " + added.network.Path}
			}
		}
	}
	return nil
}

// SubnetConflict is an address that an attachment gives the host, in a subnet that another link of the host has: the host
// would no longer reach what is there, such as its router, whose address it may even be.
type SubnetConflict struct {
	cniconf.HostAddress

	// Link has the subnet.
	Link string
	// Exists is whether the bridge has the address already.
	Exists bool
}

func (c SubnetConflict) String() string {
	gets := "the host's ends of its attachments get"
	if c.Bridge != "" {
		gets = "the bridge " + c.Bridge + " gets"
	}
	return fmt.Sprintf("%s the address %s, and %s is the subnet of %s of this host, which would lose its way to what is there",
		gets, c.Address.Addr(), c.Address.Masked(), c.Link)
}

// SubnetConflicts returns those of a network with the links of the host. A link that is down has no route to its subnet.
func SubnetConflicts(n *cniconf.Network, links []netns.Interface) []SubnetConflict {
	var all []SubnetConflict
	for _, own := range n.HostAddresses() {
		exists := slices.ContainsFunc(links, func(l netns.Interface) bool {
			return own.Bridge != "" && l.IsNamed(own.Bridge) && slices.Contains(l.Addresses, own.Address)
		})
		for _, link := range links {
			if link.Up && !link.IsNamed(own.Bridge) && hasSubnet(link, own) {
				all = append(all, SubnetConflict{own, link.Name, exists})
			}
		}
	}
	return all
}

// hasSubnet tells whether a link has the subnet of an address, as a route of its own: not where it has that address alone. ptp
// adds no route to the subnet, so that an operator may have it use the address that the host has on that link.
func hasSubnet(link netns.Interface, own cniconf.HostAddress) bool {
	if own.Address.IsSingleIP() || own.Bridge == "" && slices.Contains(link.Addresses, own.Address) {
		return false
	}
	return slices.ContainsFunc(link.Addresses, func(a netip.Prefix) bool { return a.Masked() == own.Address.Masked() })
}

// checkAssigned refuses a result with an address that the host itself has: IPAM plugins know the addresses that they assign,
// and not those of the host, which may be in the same range. What answers for it on the link would be chance.
func (o *operation) checkAssigned(a state.Attachment) error {
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return err
	}
	var assigned []netip.Addr
	for _, address := range onrecord.Addresses(result) {
		// Each namespace has its own loopback addresses, and each link its own link-local ones.
		if ip := address.Addr().Unmap(); !ip.IsLoopback() && (ip.Is4() || !ip.IsLinkLocalUnicast()) {
			assigned = append(assigned, ip)
		}
	}
	if len(assigned) == 0 {
		return nil
	}
	held, link, err := o.config.Host.Holder(assigned)
	if err != nil || link == "" {
		return err
	}
	return fmt.Errorf("its IPAM plugin has assigned %s, which is an address of this host, on %s: leave it out of the range in %s (rangeStart, rangeEnd, or exclude of allocnet-ipam)",
		held, link, o.fileOf(a.Network))
}

// fileOf returns the file of a network for messages.
func (e *Engine) fileOf(network string) string {
	catalog, err := e.Catalog()
	if err == nil {
		if n, err := catalog.Lookup(network); err == nil {
			return n.Path
		}
	}
	return fmt.Sprintf("the configuration of network %q", network)
}
