// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// firstTable is the lowest number that a routing table of an attachment can have, and
// the priority of its rules.
const firstTable = 20000

// assignTables gives each attachment with source routing a table that the namespace and
// the record do not have.
func (p *plan) assignTables(ns kernel.Namespace) error {
	if !slices.ContainsFunc(p.added, func(a planned) bool { return a.sourceRouting }) {
		return nil
	}
	used, err := ns.UsedTables()
	if err != nil {
		return err
	}
	for _, a := range p.existing { // one whose ADD was interrupted has no rules yet
		if a.SourceRoutes != nil {
			used[a.SourceRoutes.Table] = true
		}
	}
	table := firstTable
	for _, added := range p.added {
		if !added.sourceRouting {
			continue
		}
		for used[table] {
			table++
		}
		used[table] = true
		added.attachment.SourceRoutes = &netns.SourceRoutes{Table: table, Interface: added.attachment.Interface}
	}
	return nil
}

// addSourceRoutes gives attachments their tables and rules: with those, replies to an
// address leave by its interface. They are on record before they are made.
func (o *operation) addSourceRoutes(ns kernel.Namespace, p *plan) error {
	for _, added := range p.added {
		a := added.attachment
		if a.SourceRoutes == nil {
			continue
		}
		routes, err := sourceRoutes(ns, *a)
		if err == nil {
			a.SourceRoutes = routes
			err = o.lock.Write(*a)
		}
		if err == nil {
			err = ns.AddSourceRoutes(*routes)
		}
		if err != nil {
			return o.failure("attach", *a, a.Attempts, fmt.Errorf("routing \"source\": %w", err))
		}
	}
	return nil
}

// sourceRoutes returns the table of an attachment: the routes of the main table through
// its interface, and a default route for each family of its addresses.
func sourceRoutes(ns kernel.Namespace, a state.Attachment) (*netns.SourceRoutes, error) {
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return nil, err
	}
	present, err := ns.RoutesOf(a.Interface)
	if err != nil {
		return nil, err
	}
	s := &netns.SourceRoutes{Table: a.SourceRoutes.Table, Interface: a.Interface}
	for _, address := range onrecord.InterfaceAddresses(result, a.Interface) {
		s.Addresses = append(s.Addresses, address.Addr())
	}
	if len(s.Addresses) == 0 {
		return nil, errors.New("the network's plugins report no address: add an IPAM plugin to the network, or remove the option")
	}
	gateways := map[bool]netip.Addr{} // by whether they are of IPv6
	for _, r := range present {
		if r.Destination.Bits() > 0 {
			s.Routes = append(s.Routes, r)
		} else if r.Gateway.IsValid() {
			gateways[r.Gateway.Is6()] = r.Gateway
		}
	}
	for _, v6 := range []bool{false, true} {
		i := slices.IndexFunc(s.Addresses, func(address netip.Addr) bool { return address.Is6() == v6 })
		if i < 0 {
			continue
		}
		gateway, ok := onrecord.Gateway(result, v6)
		if !ok {
			gateway = gateways[v6]
		}
		if !gateway.IsValid() {
			return nil, fmt.Errorf("the network's plugins report no gateway for %s: add one to the IPAM plugin's configuration, or remove the option", s.Addresses[i])
		}
		s.Routes = append(s.Routes, netns.TableRoute{Destination: allOf(v6), Gateway: gateway})
	}
	return s, nil
}

// allOf is the destination of default routes.
func allOf(v6 bool) netip.Prefix {
	if v6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// removeSourceRoutes removes the table and the rules of an attachment. A failure does not
// keep it attached: they end with the namespace.
func (o *operation) removeSourceRoutes(a state.Attachment, path string) {
	if a.SourceRoutes == nil || path == "" {
		return
	}
	ns, err := o.namespace()
	if err == nil {
		defer ns.Close() //nolint:errcheck // only its routes change
		err = ns.RemoveSourceRoutes(*a.SourceRoutes)
	}
	if err != nil {
		o.attachmentLog(a).Warn("routing rules are left in the namespace", "error", err)
	}
}

// checkSourceRoutes looks for the rules and routes of an attachment.
func checkSourceRoutes(ns kernel.Namespace, a state.Attachment) error {
	if a.SourceRoutes == nil {
		return nil
	}
	missing, err := ns.MissingSourceRoutes(*a.SourceRoutes)
	if err == nil && len(missing) > 0 {
		return damaged("%s is gone", missing[0])
	}
	return err
}

// checkChain refuses a network whose CHECK always fails: the plugin sbr moves routes to
// other tables, and the interface's plugin looks for them in the main table.
func checkChain(network string, list *libcni.NetworkConfigList) error {
	hasCheck, err := version.GreaterThanOrEqualTo(list.CNIVersion, "0.4.0")
	if err != nil || !hasCheck || list.DisableCheck {
		return err
	}
	first := list.Plugins[0].Network.Type
	chained := slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool { return p.Network.Type == "sbr" })
	if !chained || !slices.Contains(plainPlugins, first) {
		return nil
	}
	return &RequestError{"network", network, fmt.Sprintf("CHECK of plugin %s fails for the routes that plugin sbr moves, and the runtime may then delete the namespace: remove sbr and set \"allocnet\": {\"routing\": \"source\"}, or set \"disableCheck\": true", first)}
}
