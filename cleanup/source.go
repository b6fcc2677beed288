// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"net/netip"

	"github.com/allocnet/allocnet/internal/inprocess/firewall"
	"github.com/allocnet/allocnet/state"
)

// sourcesOf returns the addresses of attachments that are sources of zones of firewalld: they would open the zone for the next
// allocation. Where firewalld does not answer all may be, and none can be removed.
func (h *host) sourcesOf(ctx context.Context, leftovers []state.Leftover) []Object {
	var wanted []firewall.Source
	for _, leftover := range leftovers {
		for _, s := range leftover.Suspects {
			for _, conf := range pluginConfs(s.Attachment.ConfList) {
				wanted = append(wanted, h.catalog.sources(conf, s.Attachment)...)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	found, err := h.programs.findSources(ctx, wanted)
	blocked := ""
	if err != nil {
		found, blocked = wanted, "it may still be a source: "+err.Error()
	}
	var objects []Object
	for _, s := range found {
		where := "firewalld's zone " + s.Zone + ", source " + s.Address.String()
		// Its owner has the address.
		objects = append(objects, Object{Kind: Firewall, Where: where, Addresses: []netip.Addr{s.Address}, addressOnly: true, Blocked: blocked, source: &s})
	}
	return objects
}

func (c catalog) sources(conf pluginConf, a state.Attachment) (all []firewall.Source) {
	plugin := c.find(conf.Type)
	if plugin.zone == nil || plugin.zone(conf) == "" {
		return nil
	}
	for _, address := range resultAddresses(a.Result) {
		all = append(all, firewall.Source{Zone: plugin.zone(conf), Address: address})
	}
	return all
}

func (system) findSources(ctx context.Context, wanted []firewall.Source) ([]firewall.Source, error) {
	return firewall.FindSources(ctx, wanted)
}

func (system) removeSource(ctx context.Context, s firewall.Source) error {
	return firewall.RemoveSource(ctx, s)
}
