// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/strictjson"
)

// PublishAddress has the ports of an allocation published on addresses of a pool, which the host that runs it has meanwhile.
type PublishAddress struct {
	// Addresses are reserved ones of the pool, by rules as those of egress addresses. An allocation that no rule is for has its ports
	// published on the addresses of the host.
	Addresses Egress `json:"addresses"`
	cniconf.PublishAddress
	pool *ipam.Config
}

// UnmarshalJSON reads an object without other keys.
func (p *PublishAddress) UnmarshalJSON(data []byte) error {
	var d struct {
		Addresses json.RawMessage `json:"addresses"`
		Interface string          `json:"interface"`
		IPAM      json.RawMessage `json:"ipam"`
	}
	mistakes, err := (strictjson.Text{Path: "publishAddress", Line: 1, Data: data}).Check(strictjson.Form{Of: "publishAddress", Into: &d, Exact: true})
	if len(mistakes) > 0 {
		err = mistakes[0]
	}
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		return fmt.Errorf("publishAddress: %w", err)
	}
	if d.Interface == "" || d.IPAM == nil || d.Addresses == nil {
		return errors.New(`publishAddress: want {"addresses": ["192.0.2.50"], "interface": "eth0", "ipam": {"type": "allocnet-ipam", ...}}`)
	}
	if p.Addresses, err = readAddresses("publishAddress.addresses", d.Addresses); err != nil {
		return err
	}
	if p.pool, err = ipam.Parse(d.IPAM); err != nil {
		return fmt.Errorf("publishAddress.ipam: %w", err)
	}
	p.Interface, p.IPAM = d.Interface, d.IPAM
	return p.validate()
}

// validate refuses addresses that are not reserved in the pool, and keys of the pool that have no effect on them.
func (p *PublishAddress) validate() error {
	for _, a := range p.Addresses.Addresses() {
		if !p.pool.IsReserved(a) {
			return fmt.Errorf("publishAddress.addresses %q: want one of \"reserved\" of pool %q: %v", a, p.pool.Pool, p.pool.Reserved)
		}
	}
	dns := p.pool.DNS
	switch {
	case p.pool.Mode != ipam.ModeFlat:
		return fmt.Errorf("publishAddress.ipam: mode %q: want %q: the interfaces of all hosts are on one link", p.pool.Mode, ipam.ModeFlat)
	case p.pool.Sticky, len(p.pool.Routes) > 0, len(dns.Nameservers)+len(dns.Search)+len(dns.Options) > 0, dns.Domain != "":
		return errors.New("publishAddress.ipam: sticky, routes and dns are for attachments: omit them")
	}
	return nil
}

// Pool is the name of the pool; empty without one.
func (p *PublishAddress) Pool() string {
	if p == nil {
		return ""
	}
	return p.pool.Pool
}

// Of returns what the ports of an allocation are published on; nil: the addresses of the host.
func (p *PublishAddress) Of(identity Identity) *cniconf.PublishAddress {
	if p == nil {
		return nil
	}
	addresses := p.Addresses.Of(identity)
	if len(addresses) == 0 {
		return nil
	}
	of := p.PublishAddress
	of.Addresses = addresses
	return &of
}

// CheckPublishAddress returns why ports of a network cannot be published on the addresses of its rules; nil if they can, or if no rule
// wants it. whyPlugins is as in CheckEgress.
func CheckPublishAddress(n *cniconf.Network, whyPlugins func(*cniconf.Network) error) error {
	rules, err := Of(n)
	if err != nil || rules.PublishAddress == nil {
		return err
	}
	fail := func(reason string) error {
		return refuse(fmt.Errorf("policy in %s: publishAddress: network %q cannot have it: %s", rules.File, n.Name, reason))
	}
	hasEnd := func(p cniconf.Plugin) bool { return slices.Contains(withEnd, p.Type) }
	samePool := func(p cniconf.Pool) bool { return p.Shared != nil && p.Shared.Pool == rules.PublishAddress.Pool() }
	switch {
	case rules.Publish != "":
		return fail(fmt.Sprintf("publish %q is about addresses of the host: remove one of them", rules.Publish))
	case !slices.ContainsFunc(n.Chain(), cniconf.Plugin.MapsPorts):
		return fail(`no plugin portmap of it declares the capability "portMappings"`)
	case !slices.ContainsFunc(n.Chain(), hasEnd):
		return fail("its interfaces have no end on the host, which would have the address while no port answers: want the plugin bridge or ptp")
	case slices.ContainsFunc(n.Pools(), samePool):
		return fail(fmt.Sprintf("its attachments have addresses of pool %q, too: want another pool for them", rules.PublishAddress.Pool()))
	}
	if why := whyPlugins(n); why != nil {
		return fail(fmt.Sprintf("its plugins are executed (%v), which give the host no addresses", why))
	}
	return nil
}
