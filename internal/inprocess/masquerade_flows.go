// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// repair leaves the rules to be added where they are missing.
func (m masquerade) repair(ctx context.Context, all *ruleSet) error {
	all.translations = append(all.translations, m)
	return m.add(ctx, all)
}

func (m masquerade) keys() []flowKey {
	var keys []flowKey
	for _, network := range m.networks {
		source, _ := netip.AddrFromSlice(netfilter.IPBytes(network.IP))
		keys = append(keys, flowKey{source: source})
	}
	return keys
}

// wants tells whether a flow leaves with the address of the attachment and has no answer: who has no
// route to the address cannot answer.
func (m masquerade) wants(f flow, isLocal func(netip.Addr) bool) bool {
	source, destination := f.original.source, f.reply.source
	if f.reply.destination != source || !f.begins() || destination.IsMulticast() {
		return false
	}
	from := func(network net.IPNet) bool { return network.IP.Equal(source.AsSlice()) }
	inside := func(network net.IPNet) bool { return network.Contains(destination.AsSlice()) }
	return slices.ContainsFunc(m.networks, from) && !slices.ContainsFunc(m.networks, inside) && !isLocal(destination)
}
