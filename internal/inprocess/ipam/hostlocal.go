// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ipam has the IPAM plugins host-local and static. Their calls have the configuration of the plugin that
// asks for addresses.
package ipam

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	hostlocal "github.com/containernetworking/plugins/plugins/ipam/host-local/backend"
	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/allocator"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/leases"
)

// HostLocal is the IPAM plugin host-local.
var HostLocal = plugin.Type{
	Config: func() any { return &allocator.IPAMConfig{} },
	Add:    addHostLocal, Del: delHostLocal,
}

var _ hostlocal.Store = (*leases.Store)(nil)

// addHostLocal allocates an address from each set of ranges.
func addHostLocal(c *plugin.Call) (*current.Result, error) {
	conf, _, err := allocator.LoadIPAMConfig(c.Config, c.Args)
	if err != nil {
		return nil, err
	}
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Routes: conf.Routes}
	if conf.ResolvConf != "" {
		if result.DNS, err = parseResolvConf(conf.ResolvConf); err != nil {
			return nil, err
		}
	}
	store, err := leases.Open(c.Ctx, conf.DataDir, conf.Name)
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	result.IPs, err = allocate(c, store, conf)
	return result, err
}

// allocate takes one address of each set of ranges, and all that are requested. If one
// cannot be had, the attachment keeps none.
func allocate(c *plugin.Call, store *leases.Store, conf *allocator.IPAMConfig) ([]*current.IPConfig, error) {
	requested := slices.Clone(conf.IPArgs)
	var allocated []*current.IPConfig
	for i := range conf.Ranges {
		ranges := &conf.Ranges[i]
		address, err := allocator.NewIPAllocator(ranges, store, i).Get(c.ContainerID, c.IfName, takeRequested(&requested, ranges))
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

// releaseLeases releases the leases of the attachment as often as the plugin does: the first time
// those of an old version stay if there are others.
func releaseLeases(c *plugin.Call, store *leases.Store, times int) {
	for range times {
		_ = store.ReleaseByID(c.ContainerID, c.IfName) // what it cannot remove is no error
	}
}

func delHostLocal(c *plugin.Call) error {
	return withLeases(c, func(store *leases.Store, conf *allocator.IPAMConfig) error {
		releaseLeases(c, store, len(conf.Ranges))
		return nil
	})
}

func withLeases(c *plugin.Call, f func(*leases.Store, *allocator.IPAMConfig) error) error {
	conf, _, err := allocator.LoadIPAMConfig(c.Config, c.Args)
	if err != nil {
		return err
	}
	store, err := leases.Open(c.Ctx, conf.DataDir, conf.Name)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	return f(store, conf)
}

// parseResolvConf reads a file in the format of resolv.conf(5). A later "domain" replaces
// an earlier one; the other keywords add up.
func parseResolvConf(path string) (types.DNS, error) {
	file, err := files.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return types.DNS{}, err
	}
	defer file.Close() //nolint:errcheck // read only
	var dns types.DNS
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		switch words[0] { // a comment is no keyword
		case "nameserver":
			dns.Nameservers = append(dns.Nameservers, words[1])
		case "domain":
			dns.Domain = words[1]
		case "search":
			dns.Search = append(dns.Search, words[1:]...)
		case "options":
			dns.Options = append(dns.Options, words[1:]...)
		}
	}
	return dns, lines.Err()
}
