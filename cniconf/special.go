// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"fmt"
	"net/netip"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// special are the addresses that no interface of an allocation is reached by: the kernel makes no route to them, or drops their packets.
// Link-local ones are, from the link.
var special = []struct {
	netip.Prefix
	what string
}{
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("0.0.0.0/32"), "unspecified"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast"},
}

// Special returns what no interface of an allocation is reached by among the addresses from first to last; empty if there is nothing.
func Special(first, last netip.Addr) string {
	for _, s := range special {
		if s.Addr().BitLen() == first.BitLen() && !last.Less(s.Addr()) && !ipam.LastOf(s.Prefix).Less(first) {
			return s.what
		}
	}
	return ""
}

// CheckAddresses refuses a network with such addresses. Those on a dummy are for the allocation itself.
func (n *Network) CheckAddresses() error {
	for _, p := range n.Chain() {
		for _, a := range p.assigns(n.Name) {
			what := Special(a.first, a.last)
			if what != "" && p.Type != "dummy" {
				return errdefs.As(errdefs.Refused, fmt.Errorf("%s: %s %s in \"ipam\" of %s: %s addresses reach no allocation: want others, such as those of 10.88.0.0/16 or fd00:88::/64",
					n.Path, a.field, a.value, p.Type, what))
			}
		}
	}
	return nil
}

// assigned are the addresses of a field of an IPAM plugin, from the first to the last.
type assigned struct {
	field       string
	value       fmt.Stringer
	first, last netip.Addr
}

// assigns returns what the plugin's IPAM gives to attachments to a network. Mistakes the plugin reports.
func (p Plugin) assigns(network string) (all []assigned) {
	pool, _ := p.pool(network)
	for _, r := range pool.Ranges() {
		if r.Subnet.IsValid() {
			first, last, gateway := r.bounds()
			all = append(all, assigned{"subnet", r.Subnet, first, last}, assigned{"gateway", gateway, gateway, gateway})
		}
	}
	for _, a := range p.addresses().Addresses {
		if address, err := netip.ParsePrefix(a.Address); err == nil {
			all = append(all, assigned{"address", address, address.Addr(), address.Addr()}, assigned{"gateway", a.Gateway, a.Gateway, a.Gateway})
		}
	}
	return all
}
