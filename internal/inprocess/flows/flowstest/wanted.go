// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package flowstest has tests of plugins ask which flows the rules of a plugin would translate.
package flowstest

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/inprocess/flows"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Of returns a flow without an answer. Its directions are source and destination, with ports, and a space between them.
func Of(protocol uint8, original, reply string) (f netfilter.Flow) {
	from, to := direction(original)
	f.Original.Source, f.Original.SourcePort, f.Original.Destination, f.Original.DestinationPort = from.Addr(), from.Port(), to.Addr(), to.Port()
	from, to = direction(reply)
	f.Reply.Source, f.Reply.SourcePort, f.Reply.Destination, f.Reply.DestinationPort = from.Addr(), from.Port(), to.Addr(), to.Port()
	f.Protocol = protocol
	return f
}

// Wanted returns the names of those that are wanted, sorted, on a host with the addresses 192.0.2.1 and 2001:db8::1.
func Wanted(by flows.Translation, all map[string]netfilter.Flow) (names []string) {
	isLocal := func(address netip.Addr) bool {
		return address == netip.MustParseAddr("192.0.2.1") || address == netip.MustParseAddr("2001:db8::1")
	}
	for name, f := range all {
		if by.Wants(f, isLocal) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func direction(text string) (from, to netip.AddrPort) {
	source, destination, _ := strings.Cut(text, " ")
	return netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)
}
