// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/resolvconf"
)

// result returns the result of ADD: that of the primary attachment, or of the
// plugins earlier in the chain. "all" adds the extra attachments. The default does
// not, because Nomad uses the alphabetically first interface as the allocation
// address.
func (r *request) result(a *hook.Allocation) (types.Result, error) {
	all := &types100.Result{CNIVersion: types100.ImplementedSpecVersion}
	var previous types.DNS
	if r.conf.PrevResult != nil {
		var err error
		if previous, err = join(all, r.conf.PrevResult); err != nil {
			return nil, err
		}
	}
	for _, attachment := range a.Attachments {
		if !attachment.Primary && r.conf.Result != "all" {
			continue
		}
		result, err := create.CreateFromBytes(attachment.Result)
		if err == nil {
			_, err = join(all, result)
		}
		if err != nil {
			return nil, fmt.Errorf("result of network %q: %w", attachment.Network, err)
		}
	}
	all.DNS = dns(a, previous)
	return all, nil
}

// dns returns the DNS that is selected for the allocation. previous is that of the
// plugins earlier in the chain, which then made the primary network.
func dns(a *hook.Allocation, previous types.DNS) types.DNS {
	selected := resolvconf.Config(a.DNS)
	switch {
	case a.DNSSelection == hook.MergedDNS:
		first := resolvconf.Config{Servers: previous.Nameservers, Domain: previous.Domain, Searches: previous.Search, Options: previous.Options}
		selected, _ = resolvconf.Merge(first, selected).Normalize()
	case a.DNSSelection == "" || a.DNSSelection == hook.PrimaryDNS && selected.IsEmpty():
		return previous
	}
	return types.DNS{Nameservers: selected.Servers, Domain: selected.Domain, Search: selected.Searches, Options: selected.Options}
}

// join appends a result without its DNS settings, and returns these.
func join(all *types100.Result, next types.Result) (types.DNS, error) {
	result, err := types100.NewResultFromResult(next)
	if err != nil {
		return types.DNS{}, err
	}
	offset := len(all.Interfaces)
	all.Interfaces = append(all.Interfaces, result.Interfaces...)
	for _, ip := range result.IPs {
		if ip.Interface != nil {
			ip.Interface = types100.Int(*ip.Interface + offset)
		}
		all.IPs = append(all.IPs, ip)
	}
	all.Routes = append(all.Routes, result.Routes...)
	return result.DNS, nil
}
