// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"
	"net"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"
	hostlocal "github.com/containernetworking/plugins/plugins/ipam/host-local/backend"
	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/allocator"

	"github.com/allocnet/allocnet/internal/leases"
)

var _ hostlocal.Store = (*leases.Store)(nil)

// addHostLocal allocates an address from each set of ranges.
func addHostLocal(c *call) (*current.Result, error) {
	conf, _, err := allocator.LoadIPAMConfig(c.config, c.args)
	if err != nil {
		return nil, err
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Routes: conf.Routes}
	if conf.ResolvConf != "" {
		if result.DNS, err = parseResolvConf(conf.ResolvConf); err != nil {
			return nil, err
		}
	}
	store, err := leases.Open(c.ctx, conf.DataDir, conf.Name)
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	result.IPs, err = allocate(c, store, conf)
	return result, err
}

// allocate takes one address of each set of ranges, and all that are requested. If one
// cannot be had, the attachment keeps none.
func allocate(c *call, store *leases.Store, conf *allocator.IPAMConfig) ([]*current.IPConfig, error) {
	requested := slices.Clone(conf.IPArgs)
	var allocated []*current.IPConfig
	for i := range conf.Ranges {
		ranges := &conf.Ranges[i]
		address, err := allocator.NewIPAllocator(ranges, store, i).Get(c.containerID, c.ifName, takeRequested(&requested, ranges))
		if err != nil {
			releaseLeases(c, store, len(allocated))
			return nil, fmt.Errorf("failed to allocate for range %d: %w", i, err)
		}
		allocated = append(allocated, address)
	}
	if len(requested) == 0 {
		return allocated, nil
	}
	releaseLeases(c, store, len(allocated))
	text := "failed to allocate all requested IPs:"
	for _, address := range requested {
		text += " " + address.String()
	}
	return nil, errors.New(text)
}

// takeRequested removes the first requested address that the ranges have, and returns it;
// nil if there is none.
func takeRequested(requested *[]net.IP, ranges *allocator.RangeSet) net.IP {
	i := slices.IndexFunc(*requested, ranges.Contains)
	if i < 0 {
		return nil
	}
	address := (*requested)[i]
	*requested = slices.DeleteFunc(*requested, address.Equal)
	return address
}

// release releases the leases of the attachment as often as the plugin does: the first time
// those of an old version stay if there are others.
func releaseLeases(c *call, store *leases.Store, times int) {
	for range times {
		_ = store.ReleaseByID(c.containerID, c.ifName) // what it cannot remove is no error
	}
}

// checkHostLocal requires a lease of the attachment, whatever its address.
func checkHostLocal(c *call) error {
	return withLeases(c, func(store *leases.Store, _ *allocator.IPAMConfig) error {
		if !store.Has(c.containerID, c.ifName) {
			return fmt.Errorf("host-local: Failed to find address added by container %v", c.containerID)
		}
		return nil
	})
}

func delHostLocal(c *call) error {
	return withLeases(c, func(store *leases.Store, conf *allocator.IPAMConfig) error {
		releaseLeases(c, store, len(conf.Ranges))
		return nil
	})
}

// withLeases runs f with the leases of the network.
func withLeases(c *call, f func(*leases.Store, *allocator.IPAMConfig) error) error {
	conf, _, err := allocator.LoadIPAMConfig(c.config, c.args)
	if err != nil {
		return err
	}
	store, err := leases.Open(c.ctx, conf.DataDir, conf.Name)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	return f(store, conf)
}
