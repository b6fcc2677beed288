// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"net/netip"
	"slices"
	"strings"
)

type zone struct {
	name string
	// accepts is whether the zone forwards everything.
	accepts bool
	sources []netip.Prefix
}

// parseZones reads the output of firewall-cmd --list-all-zones. Sources that are no prefix, as
// sets and MACs, are left out.
func parseZones(text string) []zone {
	var zones []zone
	for line := range strings.Lines(text) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			zones = append(zones, zone{name: name})
			continue
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if len(zones) == 0 {
			continue
		}
		switch z := &zones[len(zones)-1]; key {
		case "target":
			z.accepts = strings.TrimSpace(value) == "ACCEPT"
		case "sources":
			for source := range strings.FieldsSeq(value) {
				if p, err := netip.ParsePrefix(source); err == nil {
					z.sources = append(z.sources, p)
				}
			}
		}
	}
	return zones
}

// IsRejected is whether firewalld runs, and has a subnet in no zone that accepts everything.
func (f *Facts) IsRejected(subnet netip.Prefix) bool {
	return f.zones != nil && !slices.ContainsFunc(f.zones, func(z zone) bool {
		return z.accepts && len(z.sources) > 0 && covers(z.sources, subnet)
	})
}
