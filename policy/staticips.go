// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// StaticIPs says which addresses a job may choose: false none, true those in the ranges of the
// network's IPAM plugin, a list those in it.
type StaticIPs struct {
	Allowed bool
	// Ranges are those of the list. Nil: there is no list.
	Ranges []AddressRange
}

// UnmarshalJSON reads a boolean or a list of ranges.
func (s *StaticIPs) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &s.Allowed) == nil {
		return nil
	}
	s.Allowed, s.Ranges = true, []AddressRange{}
	var texts []string
	if err := json.Unmarshal(data, &texts); err != nil {
		return fmt.Errorf("staticIPs %s: want true, false, or a list of ranges, as in 192.0.2.64-192.0.2.95/24", data)
	}
	for _, text := range texts {
		r, err := parseAddressRange(text)
		if err != nil {
			return err
		}
		s.Ranges = append(s.Ranges, r)
	}
	return nil
}

// AddressRange is addresses from First to Last of a network with Bits.
type AddressRange struct {
	First, Last netip.Addr
	Bits        int
}

// parseAddressRange reads "SUBNET/BITS" or "FIRST-LAST/BITS". A subnet has neither its own
// address nor, for IPv4, the one of broadcasts.
func parseAddressRange(text string) (AddressRange, error) {
	wrong := fmt.Errorf("staticIPs %q: want a subnet such as 192.0.2.0/24, or addresses of one such as 192.0.2.64-192.0.2.95/24", text)
	first, rest, isRange := strings.Cut(text, "-")
	if !isRange {
		rest = text
	}
	prefix, err := netip.ParsePrefix(rest)
	if err != nil || prefix.Addr().Is4In6() {
		return AddressRange{}, wrong
	}
	r := AddressRange{First: prefix.Masked().Addr(), Last: prefix.Addr(), Bits: prefix.Bits()}
	if isRange {
		r.First, err = netip.ParseAddr(first)
		if err != nil || !prefix.Contains(r.First) || r.Last.Less(r.First) {
			return AddressRange{}, wrong
		}
		return r, nil
	}
	if prefix != prefix.Masked() {
		return AddressRange{}, wrong
	}
	r.Last = ipam.LastOf(prefix)
	if prefix.Addr().BitLen()-prefix.Bits() > 1 {
		r.First = r.First.Next()
		if r.Last.Is4() {
			r.Last = r.Last.Prev()
		}
	}
	return r, nil
}

func (r AddressRange) contains(a netip.Addr) bool {
	return a.BitLen() == r.First.BitLen() && !a.Less(r.First) && !r.Last.Less(a)
}

func (r AddressRange) String() string { return fmt.Sprintf("%s-%s/%d", r.First, r.Last, r.Bits) }

// checkAddresses denies addresses that the rules do not name. Ranges of the network's IPAM plugin
// name them, too, and are checked with its leases.
func (a Attachment) checkAddresses(host Source) error {
	rule, file := first(a.Rules, host, func(r Rules) *StaticIPs { return r.StaticIPs })
	if rule == nil || rule.Ranges == nil {
		if len(a.Addresses) > 0 && !a.HasRanges {
			return a.denied("staticIPs", a.Rules.File, `the network has no ranges of addresses that a job may choose from: name them, as in "allocnet": {"staticIPs": ["192.0.2.64-192.0.2.95/24"]}`)
		}
		return nil
	}
	for _, address := range a.Addresses {
		allowed := false
		for _, r := range rule.Ranges {
			fits := address.Bits() == r.Bits || address.Bits() < 0 && a.HasRanges
			allowed = allowed || r.contains(address.Addr()) && fits
		}
		if !allowed {
			return a.denied("staticIPs", file, fmt.Sprintf("a job may not choose the address %s, where the rule allows %s", textOf(address), listOf(rule.Ranges)))
		}
	}
	return nil
}

// textOf prints an address with its length, if it has one.
func textOf(p netip.Prefix) string {
	if p.Bits() < 0 {
		return p.Addr().String()
	}
	return p.String()
}
