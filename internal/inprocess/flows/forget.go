// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package flows

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// table is what the kernel knows of flows. Tests have a fake.
type table interface {
	list() ([]Flow, error)
	forget(f Flow) error
	// isLocal tells whether packets to an address are for the host itself.
	isLocal(address netip.Addr) bool
}

// Translation tells which flows rules of an attachment would translate if they began now. It is
// asked about UDP, and about connections that are not established.
type Translation interface {
	// Keys are those of the flows that it may want.
	Keys() []Key
	// Wants tells whether they would translate it; isLocal, whether packets to an address are for the host itself.
	Wants(f Flow, isLocal func(netip.Addr) bool) bool
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

func (all translations) want(f Flow, isLocal func(netip.Addr) bool) bool {
	wants := func(t Translation) bool { return t.Wants(f, isLocal) }
	return slices.ContainsFunc(all[Key{Source: f.Original.Source}], wants) ||
		slices.ContainsFunc(all[Key{Port: f.Original.DestinationPort, Protocol: f.Protocol}], wants)
}

// Begins tells whether a flow is a connection that is not established, or UDP without an answer.
func (f Flow) Begins() bool {
	if f.Protocol == unix.IPPROTO_TCP {
		return f.state == nl.TCP_CONNTRACK_SYN_SENT
	}
	return f.Protocol == unix.IPPROTO_UDP && !f.answered
}

// Forget has the kernel forget the flows that began while the rules of translations were missing: as long as packets
// arrive, it would not translate them. That a flow has ended is no error.
func Forget(ctx context.Context, all []Translation) error {
	socket, err := dial(ctx)
	if err != nil {
		return err
	}
	defer socket.Close() //nolint:errcheck // nothing is left to send
	return forget(socket, all)
}

func forget(in table, all []Translation) error {
	flows, err := in.list()
	if err != nil {
		return fmt.Errorf("which flows began without the rules is unknown: %w", err)
	}
	wanted := translationsOf(all)
	for _, f := range flows {
		if f.Protocol != unix.IPPROTO_UDP && !f.Begins() {
			continue
		}
		if !wanted.want(f, in.isLocal) {
			continue
		}
		if err := in.forget(f); err != nil {
			return fmt.Errorf("a flow from %s that began without the rules is still not translated: %w", f.Original.Source, err)
		}
	}
	return nil
}

// isLocal asks the host's routes, as the rules do.
func (*socket) isLocal(address netip.Addr) bool {
	routes, err := netlink.RouteGet(address.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
}
