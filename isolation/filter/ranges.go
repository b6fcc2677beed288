// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// bound is an address at which rules begin or end to select addresses. The end of the last addresses is no address.
type bound struct {
	at   netip.Addr
	rule int
	ends bool
}

// prefixes returns those of a version of IP that a selector selects by address.
func (v *ip) prefixes(s *isolation.Selector) []netip.Prefix {
	if selectsAll(s) {
		zero := netip.IPv4Unspecified()
		if v == &ip6 {
			zero = netip.IPv6Unspecified()
		}
		return []netip.Prefix{netip.PrefixFrom(zero, 0)}
	}
	var all []netip.Prefix
	for _, cidr := range s.CIDRs {
		if cidr.Addr().BitLen() == 8*v.size {
			all = append(all, cidr.Masked())
		}
	}
	return all
}

// after returns the address after those of a prefix; ok is false if these are the last.
func after(p netip.Prefix) (_ netip.Addr, ok bool) {
	last := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(last); i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(last)
	next := a.Next()
	return next, next.IsValid()
}

// reach are ranges of addresses, each with the rules that select it, in the order of the addresses.
type reach []struct {
	from  netip.Addr
	rules []int
}

// reachOf divides the addresses at the bounds of selectors. Addresses that no rule selects are in a range without rules.
func (v *ip) reachOf(selectors []*isolation.Selector) reach {
	var bounds []bound
	for i, s := range selectors {
		for _, p := range v.prefixes(s) {
			bounds = append(bounds, bound{p.Addr(), i, false})
			if end, ok := after(p); ok {
				bounds = append(bounds, bound{end, i, true})
			}
		}
	}
	slices.SortStableFunc(bounds, func(a, b bound) int { return a.at.Compare(b.at) })
	var all reach
	depth := map[int]int{} // a rule may have prefixes within others
	for i, b := range bounds {
		if b.ends {
			depth[b.rule]--
		} else {
			depth[b.rule]++
		}
		if i+1 < len(bounds) && bounds[i+1].at == b.at {
			continue
		}
		var rules []int
		for rule, n := range depth {
			if n > 0 {
				rules = append(rules, rule)
			} else {
				delete(depth, rule)
			}
		}
		slices.Sort(rules)
		if n := len(all); n > 0 && slices.Equal(all[n-1].rules, rules) || n == 0 && len(rules) == 0 {
			continue
		}
		all = append(all, struct {
			from  netip.Addr
			rules []int
		}{b.at, rules})
	}
	return all
}

// elements returns those of a set of ranges. chain returns where rules lead to; nil: the set is no map. A range without rules is none.
func (r reach) elements(chain func(rules []int) string) []netfilter.Element {
	var all []netfilter.Element
	for i, part := range r {
		if i > 0 && len(r[i-1].rules) > 0 {
			all = append(all, netfilter.Element{Key: part.from.AsSlice(), IsEnd: true})
		}
		if len(part.rules) == 0 {
			continue
		}
		e := netfilter.Element{Key: part.from.AsSlice()}
		if chain != nil {
			e.Verdict, e.Chain = expr.VerdictJump, chain(part.rules)
		}
		all = append(all, e)
	}
	return all
}
