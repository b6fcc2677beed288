// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/policy"
)

// checkLease refuses keys of a network with leases of DHCP that would not be read: those of allocnet where plugins are executed, and
// source routing, whose table is of the addresses that there were at ADD.
func (c Config) checkLease(n *cniconf.Network, options policy.Source) error {
	if c.InProcess == nil || !inprocess.UsesDHCP(n.List) {
		return nil
	}
	why := c.ReasonForPlugins(n.List, options.Executor)
	key := inprocess.LeaseKey(n.List)
	switch {
	case why != nil && key != "":
		return errdefs.As(errdefs.Refused, fmt.Errorf("%s of dhcp in %s is read by allocnet alone, and its plugins are executed: %w", key, n.Path, why))
	case why == nil && options.Routing == policy.SourceRouting:
		return errdefs.As(errdefs.Refused, fmt.Errorf("routing %q in %s: a lease of DHCP may change the addresses: want other \"ipam\", or no routing", options.Routing, n.Path))
	}
	return nil
}

// warnRouteless warns of addresses by DHCPv6, which come without routes, on a network that takes none from routers.
func warnRouteless(n *cniconf.Network) []string {
	options, err := policy.Of(n)
	has := func(is func(cniconf.Plugin) bool) bool { return slices.ContainsFunc(n.Chain(), is) }
	if err != nil || options.AcceptRA || !has(cniconf.Plugin.LeasesIPv6) || has(cniconf.Plugin.SetsAcceptRA) {
		return nil
	}
	return []string{`ipam.families has "ipv6", and DHCPv6 gives no routes: its addresses reach nothing without "allocnet": {"acceptRA": true}, or routes by other means`}
}
