// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"net"
	"net/netip"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/ipam"
	"github.com/allocnet/allocnet/ipam/pool"
)

// Plugin executes calls. Their errors are *types.Error, with the codes of the CNI
// specification.
type Plugin struct {
	// Open returns the pool of a configuration.
	Open func(*ipam.Config) *pool.Pool
}

// Add assigns addresses. A repeated call for an attachment returns what it has.
func (p *Plugin) Add(ctx context.Context, c Call) (*current.Result, error) {
	conf, opened, err := p.open(c)
	if err != nil {
		return nil, err
	}
	request, err := c.request()
	if err != nil {
		return nil, err
	}
	assigned, err := opened.Add(ctx, request)
	if err != nil {
		return nil, cniError(err)
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Routes: conf.Routes, DNS: conf.DNS}
	for _, a := range assigned {
		result.IPs = append(result.IPs, ipConfig(a))
	}
	return result, nil
}

func ipConfig(a ipam.Assigned) *current.IPConfig {
	c := &current.IPConfig{Address: net.IPNet{
		IP:   slice(a.Address.Addr()),
		Mask: net.CIDRMask(a.Address.Bits(), a.Address.Addr().BitLen()),
	}}
	if a.Gateway.IsValid() {
		c.Gateway = slice(a.Gateway)
	}
	return c
}

func slice(a netip.Addr) net.IP { return a.AsSlice() }

// Del frees the addresses of an attachment, which may have none.
func (p *Plugin) Del(ctx context.Context, c Call) error {
	_, opened, err := p.open(c)
	if err != nil {
		return err
	}
	return cniError(opened.Del(ctx, c.owner()))
}

// Check requires that the attachment has the addresses of its result.
func (p *Plugin) Check(ctx context.Context, c Call) error {
	conf, opened, err := p.open(c)
	if err != nil {
		return err
	}
	previous, err := c.previous(conf)
	if err != nil {
		return err
	}
	return cniError(opened.Check(ctx, c.owner(), previous))
}

// Status returns why an ADD would fail now.
func (p *Plugin) Status(ctx context.Context, c Call) error {
	_, opened, err := p.open(c)
	if err != nil {
		return err
	}
	return unavailable(opened.Status(ctx))
}

func (p *Plugin) open(c Call) (*ipam.Config, *pool.Pool, error) {
	conf, err := Pool(c.Config)
	if err != nil {
		return nil, nil, err
	}
	return conf, p.Open(conf), nil
}
