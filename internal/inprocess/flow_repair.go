// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
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

func translationsOf(all []*Changes) translations {
	found := translations{}
	for _, c := range all {
		for _, t := range c.translations {
			for _, key := range t.keys() {
				found[key] = append(found[key], t)
			}
		}
	}
	return found
}

func (all translations) want(f flow, isLocal func(netip.Addr) bool) bool {
	wants := func(t translation) bool { return t.wants(f, isLocal) }
	return slices.ContainsFunc(all[flowKey{source: f.original.source}], wants) ||
		slices.ContainsFunc(all[flowKey{port: f.original.destinationPort, protocol: f.protocol}], wants)
}

// repairMasquerade leaves the rules to be added where they are missing.
func (c *call) repairMasquerade(m masquerade) error {
	c.changes.translations = append(c.changes.translations, m)
	return c.addMasquerade(m)
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

// begins tells whether a flow is a connection that is not established, or UDP without an answer.
func (f flow) begins() bool {
	if f.protocol == unix.IPPROTO_TCP {
		return f.state == nl.TCP_CONNTRACK_SYN_SENT
	}
	return f.protocol == unix.IPPROTO_UDP && !f.answered
}

// publication are the ports that are published for an address.
type publication struct {
	address  net.IP
	mappings []portMapping
}

func (p publication) keys() []flowKey {
	var keys []flowKey
	for _, m := range p.mappings {
		keys = append(keys, flowKey{port: uint16(m.HostPort), protocol: nftablesProtocols[strings.ToLower(m.Protocol)]})
	}
	return keys
}

// wants tells whether a flow to a published port has reached the host itself. One of UDP may have
// been answered by a program there.
func (p publication) wants(f flow, isLocal func(netip.Addr) bool) bool {
	to := f.original.destination
	if f.reply.source != to || f.reply.sourcePort != f.original.destinationPort || to.Is4() != isIPv4(p.address) {
		return false
	}
	return slices.ContainsFunc(p.mappings, func(m portMapping) bool {
		return nftablesProtocols[strings.ToLower(m.Protocol)] == f.protocol && m.HostPort == int(f.original.destinationPort) &&
			m.applies(p.address) && (!m.bound() || net.ParseIP(m.HostIP).Equal(to.AsSlice()))
	}) && isLocal(to)
}

// forgetFlows has the kernel forget the flows that began while the rules were missing: as long as
// packets arrive, it would not translate them.
func forgetFlows(table flowTable, all []*Changes) error {
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

// forgetFlows does so for those whose rules have been added.
func (m *missingRules) forgetFlows() {
	repaired := &missingRules{ctx: m.ctx, all: slices.DeleteFunc(slices.Clone(m.all), func(c *Changes) bool {
		return !m.incomplete[c] || len(c.translations) == 0 || c.repair.Err != nil || c.repair.DryRun
	})}
	if len(repaired.all) == 0 {
		return
	}
	repaired.run(func() error {
		socket, err := dialFlows(m.ctx)
		if err != nil {
			return err
		}
		defer socket.Close() //nolint:errcheck // nothing is left to send
		return forgetFlows(socket, repaired.all)
	})
}
