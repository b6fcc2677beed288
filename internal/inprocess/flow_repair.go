// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// flowTable is what the kernel knows of flows. Tests have a fake.
type flowTable interface {
	list() ([]flow, error)
	forget(f flow) error
	// isLocal tells whether packets to an address are for the host itself.
	isLocal(address netip.Addr) bool
}

// translation tells which flows rules of an attachment would translate if they began now. It is
// asked about UDP, and about connections that are not established.
type translation interface {
	// keys are those of the flows that it may want.
	keys() []flowKey
	wants(f flow, isLocal func(netip.Addr) bool) bool
}

// flowKey has the source of flows, or their port and protocol: a host may have many flows and many
// attachments.
type flowKey struct {
	source   netip.Addr
	port     uint16
	protocol uint8
}

// translations are those of several attachments.
type translations map[flowKey][]translation

func translationsOf(all []translation) translations {
	found := translations{}
	for _, t := range all {
		for _, key := range t.keys() {
			found[key] = append(found[key], t)
		}
	}
	return found
}

func (all translations) want(f flow, isLocal func(netip.Addr) bool) bool {
	wants := func(t translation) bool { return t.wants(f, isLocal) }
	return slices.ContainsFunc(all[flowKey{source: f.original.source}], wants) ||
		slices.ContainsFunc(all[flowKey{port: f.original.destinationPort, protocol: f.protocol}], wants)
}

// begins tells whether a flow is a connection that is not established, or UDP without an answer.
func (f flow) begins() bool {
	if f.protocol == unix.IPPROTO_TCP {
		return f.state == nl.TCP_CONNTRACK_SYN_SENT
	}
	return f.protocol == unix.IPPROTO_UDP && !f.answered
}

// forgetFlows has the kernel forget the flows that began while the rules were missing: as long as
// packets arrive, it would not translate them.
func forgetFlows(table flowTable, all []translation) error {
	flows, err := table.list()
	if err != nil {
		return fmt.Errorf("which flows began without the rules is unknown: %w", err)
	}
	wanted := translationsOf(all)
	for _, f := range flows {
		if f.protocol != unix.IPPROTO_UDP && !f.begins() {
			continue
		}
		if !wanted.want(f, table.isLocal) {
			continue
		}
		if err := table.forget(f); err != nil {
			return fmt.Errorf("a flow from %s that began without the rules is still not translated: %w", f.original.source, err)
		}
	}
	return nil
}

// isLocal asks the host's routes, as the rules do.
func (*flowSocket) isLocal(address netip.Addr) bool {
	routes, err := netlink.RouteGet(address.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
}
