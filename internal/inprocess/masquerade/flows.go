// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package masquerade

import (
	"net"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/internal/inprocess/flows"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Keys are those of flows from the attachment.
func (m attachment) Keys() []flows.Key {
	var keys []flows.Key
	for _, network := range m.networks {
		source, _ := netip.AddrFromSlice(netfilter.IPBytes(network.IP))
		keys = append(keys, flows.Key{Source: source})
	}
	return keys
}

// Wants tells whether a flow leaves with the address of the attachment and has no answer: who has no
// route to the address cannot answer.
func (m attachment) Wants(f flows.Flow, isLocal func(netip.Addr) bool) bool {
	source, destination := f.Original.Source, f.Reply.Source
	if f.Reply.Destination != source || !f.Begins() || destination.IsMulticast() {
		return false
	}
	from := func(network net.IPNet) bool { return network.IP.Equal(source.AsSlice()) }
	inside := func(network net.IPNet) bool { return network.Contains(destination.AsSlice()) }
	return slices.ContainsFunc(m.networks, from) && !slices.ContainsFunc(m.networks, inside) && !isLocal(destination)
}
