// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/strictjson"
)

// Egress says which addresses packets of a network leave the host with, in place of those of the interfaces that they leave
// by. The first rule that is for an allocation counts; without one nothing changes.
type Egress []EgressRule

// EgressRule gives addresses, at most one of each family, to the allocations of some jobs, or to all.
type EgressRule struct {
	// Namespaces and Jobs are patterns as those of Rules.
	Namespaces []string     `json:"namespaces,omitempty"`
	Jobs       []string     `json:"jobs,omitempty"`
	Addresses  []netip.Addr `json:"addresses"`
}

// UnmarshalJSON reads an address, a list of addresses, or a list of rules.
func (e *Egress) UnmarshalJSON(data []byte) (err error) {
	*e, err = readAddresses("egressAddress", data)
	return err
}

// readAddresses reads the value of a key: an address, a list of addresses, or a list of rules.
func readAddresses(key string, data []byte) (Egress, error) {
	var address netip.Addr
	if json.Unmarshal(data, &address) == nil && address.IsValid() {
		e := Egress{{Addresses: []netip.Addr{address}}}
		return e, e.validate(key)
	}
	var addresses []netip.Addr
	if json.Unmarshal(data, &addresses) == nil {
		e := Egress{{Addresses: addresses}}
		return e, e.validate(key)
	}
	var rules Egress
	elements, err := (strictjson.Text{Data: data}).Elements()
	hasMistake := func(rule strictjson.Text) bool {
		mistakes, err := rule.Check(strictjson.Form{Of: key, Into: &EgressRule{}, Exact: true})
		return err != nil || len(mistakes) > 0
	}
	if err != nil || slices.ContainsFunc(elements, hasMistake) || json.Unmarshal(data, (*[]EgressRule)(&rules)) != nil {
		return nil, fmt.Errorf(`%s %s: want an address, a list of one of each family, or a list of rules as {"jobs": ["db-*"], "addresses": ["192.0.2.10"]}`, key, data)
	}
	return rules, rules.validate(key)
}

func (e Egress) validate(key string) error {
	if len(e) == 0 {
		return fmt.Errorf("%s: is empty: want an address, or omit it", key)
	}
	for _, rule := range e {
		if len(rule.Addresses) == 0 {
			return fmt.Errorf("%s: a rule has no addresses: want one, or one of each family", key)
		}
		for i, a := range rule.Addresses {
			sameFamily := func(b netip.Addr) bool { return b.Is4() == a.Is4() }
			if !a.IsValid() || a.Zone() != "" || a.Is4In6() || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() || slices.ContainsFunc(rule.Addresses[:i], sameFamily) {
				return fmt.Errorf("%s %q: want an address that others reach the host at, and at most one of each family", key, a)
			}
		}
		if err := validatePatterns(map[string][]string{"namespaces": rule.Namespaces, "jobs": rule.Jobs}); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// Of returns the addresses of an allocation; none: those of the interfaces that its packets leave by.
func (e Egress) Of(identity Identity) []netip.Addr {
	for _, rule := range e {
		rules := Source{Rules: Rules{Namespaces: rule.Namespaces, Jobs: rule.Jobs}}
		if (Attachment{Rules: rules}).checkIdentity(identity, Source{}) == nil { // a network with these patterns would let it attach
			return rule.Addresses
		}
	}
	return nil
}

// Addresses are those of all rules.
func (e Egress) Addresses() (all []netip.Addr) {
	for _, rule := range e {
		for _, a := range rule.Addresses {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// CheckEgress returns why packets of a network cannot leave with the addresses of its rules; nil if they can, or if no rule wants
// it. whyPlugins returns why the plugins of a network are executed; nil: they are not.
func CheckEgress(n *cniconf.Network, whyPlugins func(*cniconf.Network) error) error {
	rules, err := Of(n)
	if err != nil || rules.EgressAddress == nil {
		return err
	}
	fail := func(reason string) error {
		return refuse(fmt.Errorf("policy in %s: egressAddress: network %q cannot have it: %s", rules.File, n.Name, reason))
	}
	if !slices.ContainsFunc(n.Chain(), cniconf.Plugin.Masquerades) {
		return fail(`no plugin bridge or ptp of it has "ipMasq": true, so that its packets leave with the addresses of the allocations`)
	}
	if why := whyPlugins(n); why != nil {
		return fail(fmt.Sprintf("its plugins are executed (%v), which know the addresses of interfaces only", why))
	}
	return nil
}
