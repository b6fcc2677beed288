// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"cmp"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/state"
)

// Selections of an allocation's DNS, besides the name of one of its networks.
const (
	// PrimaryDNS is that of the primary network.
	PrimaryDNS = "primary"
	// MergedDNS is the primary's, then those of the extra networks in the order of their interfaces' numbering.
	MergedDNS = "merge"
)

// SelectedDNS returns the DNS of an allocation from that of its attachments, in their
// order, and the values in it that resolvers do not accept or use.
func SelectedDNS(selection string, attachments []allocation.Attachment) (allocation.DNS, []string) {
	var found []resolvconf.Config
	for _, a := range attachments {
		c := resolvconf.Config(a.DNS)
		if a.Phase != state.Attached && a.Phase != allocation.Reattaching || !hasSelectedDNS(selection, a) || c.IsEmpty() {
			continue
		}
		found = append(found, c)
		if selection != MergedDNS { // of several attachments to a network the first that has any
			break
		}
	}
	normal, dropped := resolvconf.Merge(found...).Normalize()
	return allocation.DNS(normal), dropped
}

// hasSelectedDNS tells whether the DNS of an attachment is selected. A network can have the
// name "primary" or "merge", which select others.
func hasSelectedDNS(selection string, a allocation.Attachment) bool {
	switch cmp.Or(selection, PrimaryDNS) {
	case MergedDNS:
		return true
	case PrimaryDNS:
		return a.Primary
	}
	return a.Network == selection
}
