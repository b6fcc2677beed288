// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// checkDefaultRoutes refuses two attachments that request the default route of one
// family. An empty list requests both families.
func checkDefaultRoutes(elements []selection.Element) error {
	owner := map[bool]string{}
	for _, e := range elements {
		for _, v6 := range []bool{false, true} {
			if !requestsDefaultRoute(e, v6) {
				continue
			}
			if other, taken := owner[v6]; taken {
				return &RequestError{"default-route", strings.Join(e.DefaultRoute, ","), fmt.Sprintf("interface %s requests it already; want one for each of IPv4 and IPv6", other)}
			}
			owner[v6] = e.Interface
		}
	}
	return nil
}

func requestsDefaultRoute(e selection.Element, v6 bool) bool {
	if e.DefaultRoute == nil {
		return false
	}
	return len(e.DefaultRoute) == 0 || slices.ContainsFunc(e.DefaultRoute, func(gateway string) bool {
		address, err := netip.ParseAddr(gateway)
		return err == nil && address.Is6() == v6
	})
}

// AssignPreviousRoutes records in the attachments of a plan the default routes that they
// may replace: those of the namespace, and those that existing attachments replaced.
func (p *Plan) AssignPreviousRoutes(routes []netns.Route) {
	p.Before = routes
	for _, a := range slices.Backward(p.Existing) {
		routes = append(routes, a.PreviousRoutes...)
	}
	for _, added := range p.Added {
		added.Attachment.PreviousRoutes = routes
	}
}

// firstTable is the lowest number that a routing table of an attachment can have, and
// the priority of its rules.
const firstTable = 20000

// AssignTables gives each attachment with source routing a table that the namespace and
// the record do not have.
func (p *Plan) AssignTables(usedTables func() (map[int]bool, error)) error {
	if !slices.ContainsFunc(p.Added, func(a Attachment) bool { return a.rules.Routing == policy.SourceRouting }) {
		return nil
	}
	used, err := usedTables()
	if err != nil {
		return err
	}
	for _, a := range p.Existing { // one whose ADD was interrupted has no rules yet
		if a.SourceRoutes != nil {
			used[a.SourceRoutes.Table] = true
		}
	}
	table := firstTable
	for _, added := range p.Added {
		if added.rules.Routing != policy.SourceRouting {
			continue
		}
		for used[table] {
			table++
		}
		used[table] = true
		added.Attachment.SourceRoutes = &netns.SourceRoutes{Table: table, Interface: added.Attachment.Interface}
	}
	return nil
}
