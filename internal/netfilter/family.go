// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"net"

	"github.com/google/nftables"
)

// Family is what nft calls a family of rules.
type Family string

// Families of nftables. iptables has the first two.
const (
	IPv4   Family = "ip"
	IPv6   Family = "ip6"
	INet   Family = "inet"
	Bridge Family = "bridge"
)

// FamilyOf returns that of an address.
func FamilyOf(ip net.IP) Family {
	if ip.To4() != nil {
		return IPv4
	}
	return IPv6
}

// Program is that of iptables for the family.
func (f Family) Program() string {
	if f == IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

// numbers are those of the kernel.
var numbers = map[Family]nftables.TableFamily{
	IPv4: nftables.TableFamilyIPv4, IPv6: nftables.TableFamilyIPv6, INet: nftables.TableFamilyINet, Bridge: nftables.TableFamilyBridge,
}
