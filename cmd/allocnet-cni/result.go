// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/allocnet/allocnet/hook"
)

// result returns the result of ADD: that of the primary attachment, or of the
// plugins earlier in the chain. "all" adds the extra attachments. The default does
// not, because Nomad uses the alphabetically first interface as the allocation
// address.
func (r *request) result(a *hook.Allocation) (types.Result, error) {
	all := &types100.Result{CNIVersion: types100.ImplementedSpecVersion}
	if r.conf.PrevResult != nil {
		if err := join(all, r.conf.PrevResult); err != nil {
			return nil, err
		}
	}
	for _, attachment := range a.Attachments {
		if !attachment.Primary && r.conf.Result != "all" {
			continue
		}
		result, err := create.CreateFromBytes(attachment.Result)
		if err == nil {
			err = join(all, result)
		}
		if err != nil {
			return nil, fmt.Errorf("result of network %q: %w", attachment.Network, err)
		}
	}
	return all, nil
}

// join appends a result. DNS settings are those of the first result that has any.
func join(all *types100.Result, next types.Result) error {
	result, err := types100.NewResultFromResult(next)
	if err != nil {
		return err
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
	if all.DNS.IsEmpty() {
		all.DNS = result.DNS
	}
	return nil
}
