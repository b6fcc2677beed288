// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin executes the calls of the CNI plugin allocnet-ipam: as the program of that
// name, and in the engine's process.
package plugin

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Plugin executes calls. Their errors are *types.Error, with the codes of the CNI
// specification.
type Plugin struct {
	// Connect returns the connection for a pool. It does no I/O.
	Connect func(*ipam.Config) Connection
	// InUse returns the addresses that a network namespace of this host has, with its path.
	InUse func() (map[netip.Addr]string, error)
}

// Add assigns addresses. A repeated call for an attachment returns what it has.
func (p *Plugin) Add(ctx context.Context, c Call) (*current.Result, error) {
	opened, err := p.open(c)
	if err != nil {
		return nil, err
	}
	request, err := c.request()
	if err != nil {
		return nil, err
	}
	if err := opened.setKey(ctx, &request.Job); err != nil {
		return nil, cniError(err)
	}
	assigned, err := opened.pool.Add(ctx, request)
	if err != nil {
		return nil, cniError(err)
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Routes: routes(opened.conf), DNS: opened.conf.DNS}
	for _, a := range assigned {
		result.IPs = append(result.IPs, ipConfig(a))
	}
	return result, nil
}

// routes returns the configured routes, and those for the addresses of the pool that are not on
// the link.
func routes(conf *ipam.Config) []*types.Route {
	all := slices.Clip(conf.Routes)
	for _, r := range conf.GatewayRoutes() {
		length := r.Destination.Addr().BitLen()
		destination := net.IPNet{IP: r.Destination.Addr().AsSlice(), Mask: net.CIDRMask(r.Destination.Bits(), length)}
		all = append(all, &types.Route{Dst: destination, GW: r.Gateway.AsSlice()})
	}
	return all
}

func ipConfig(a ipam.Assigned) *current.IPConfig {
	address := a.Address.Addr()
	c := &current.IPConfig{Address: net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(a.Address.Bits(), address.BitLen())}}
	if a.Gateway.IsValid() {
		c.Gateway = a.Gateway.AsSlice()
	}
	return c
}

// Del frees the addresses of an attachment, which may have none, unless it is attached again.
func (p *Plugin) Del(ctx context.Context, c Call) error {
	if conf, err := c.config(); err == nil && conf.Args.Allocnet.KeepAddresses {
		return nil
	}
	opened, err := p.open(c)
	if err != nil {
		return err
	}
	return cniError(opened.pool.Del(ctx, c.owner()))
}

// Check requires that the attachment has the addresses of its result.
func (p *Plugin) Check(ctx context.Context, c Call) error {
	opened, err := p.open(c)
	if err != nil {
		return err
	}
	previous, err := c.previous(opened.conf)
	if err != nil {
		return err
	}
	return cniError(opened.pool.Check(ctx, c.owner(), previous))
}

// Status returns why an ADD would fail now.
func (p *Plugin) Status(ctx context.Context, c Call) error {
	opened, err := p.open(c)
	if err != nil {
		return err
	}
	return codedUnlessNil(types.ErrPluginNotAvailable, opened.pool.Status(ctx))
}
