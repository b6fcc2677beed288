// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package flows has the kernel forget tracked flows that began while rules of an attachment were missing. As long as it
// tracks such a flow, it does not translate its packets, although the rules are back.
package flows

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
)

// Translation tells which flows rules of an attachment would translate if they began now. It is
// asked about UDP, and about connections that are not established.
type Translation interface {
	// Keys are those of the flows that it may want.
	Keys() []Key
	// Wants tells whether they would translate it; isLocal, whether packets to an address are for the host itself.
	Wants(f netfilter.Flow, isLocal func(netip.Addr) bool) bool
}

// Key has the source of flows, or their port and protocol: a host may have many flows and many
// attachments.
type Key struct {
	Source   netip.Addr
	Port     uint16
	Protocol uint8
}

type translations map[Key][]Translation

func translationsOf(all []Translation) translations {
	found := translations{}
	for _, t := range all {
		for _, key := range t.Keys() {
			found[key] = append(found[key], t)
		}
	}
	return found
}

func (all translations) want(f netfilter.Flow, isLocal func(netip.Addr) bool) bool {
	if f.Protocol != unix.IPPROTO_UDP && !Begins(f) {
		return false
	}
	wants := func(t Translation) bool { return t.Wants(f, isLocal) }
	return slices.ContainsFunc(all[Key{Source: f.Original.Source}], wants) ||
		slices.ContainsFunc(all[Key{Port: f.Original.DestinationPort, Protocol: f.Protocol}], wants)
}

// Begins tells whether a flow is a connection that is not established, or UDP without an answer.
func Begins(f netfilter.Flow) bool {
	if f.Protocol == unix.IPPROTO_TCP {
		return f.State == nl.TCP_CONNTRACK_SYN_SENT
	}
	return f.Protocol == unix.IPPROTO_UDP && !f.IsAnswered
}

// Forget has the kernel forget the flows that began while the rules of translations were missing: as long as packets
// arrive, it would not translate them. That a flow has ended is no error.
func Forget(ctx context.Context, all []Translation) error {
	wanted := translationsOf(all)
	if err := netfilter.ForgetEach(ctx, func(f netfilter.Flow) bool { return wanted.want(f, netns.OwnsAddress) }); err != nil {
		return fmt.Errorf("flows that began without the rules may still not be translated: %w", err)
	}
	return nil
}
