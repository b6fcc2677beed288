// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"errors"
	"maps"
	"net"
	"slices"

	gocni "github.com/containerd/go-cni"

	"github.com/allocnet/allocnet/nomad"
)

// NetworkStatus is what Nomad keeps of the result of ADD.
type NetworkStatus struct {
	InterfaceName, Address, AddressIPv6 string
	// DNS is nil if the network has no servers.
	DNS *DNS
}

// newNetworkStatus takes the first interface by name that is in a namespace and has an address, or
// else the first that has an address (v1.6.2 networking_cni.go, cniToAllocNet).
func newNetworkStatus(version nomad.Version, result *gocni.Result) (*NetworkStatus, error) {
	status := &NetworkStatus{}
	names := slices.Sorted(maps.Keys(result.Interfaces))
	for _, inside := range []bool{true, false} {
		for _, name := range names {
			found := result.Interfaces[name]
			if status.Address == "" && (found.Sandbox != "" || !inside) && status.setAddresses(version, found.IPConfigs) {
				status.InterfaceName = name
			}
		}
	}
	if status.Address == "" {
		return nil, errors.New("failed to configure network: no interface with an address")
	}
	if len(result.DNS) > 0 && len(result.DNS[0].Nameservers) > 0 {
		status.DNS = &DNS{result.DNS[0].Nameservers, result.DNS[0].Search, result.DNS[0].Options}
	}
	return status, nil
}

// setAddresses takes the first address of each family, and reports whether an allocation can have
// them: up to 1.10 one of IPv4 is needed. Before 1.9 the first address counts, whatever its family.
func (s *NetworkStatus) setAddresses(version nomad.Version, configs []*gocni.IPConfig) bool {
	if len(configs) == 0 {
		return false
	}
	if !version.Has(bothFamilies) {
		s.Address = configs[0].IP.String()
		return true
	}
	first := func(isFamily func(net.IP) bool) string {
		if i := slices.IndexFunc(configs, func(c *gocni.IPConfig) bool { return isFamily(c.IP) }); i >= 0 {
			return configs[i].IP.String()
		}
		return ""
	}
	isIPv4 := func(ip net.IP) bool { return ip.To4() != nil }
	s.Address, s.AddressIPv6 = first(isIPv4), first(func(ip net.IP) bool { return !isIPv4(ip) })
	if s.Address == "" && version.Has(ConnectOnCNI) {
		s.Address = s.AddressIPv6
	}
	return s.Address != ""
}
