// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"errors"
	"fmt"
	"net"

	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Names of sets of the table of bridges: the MACs of attachments to bridges, and of those that are apart, and of ends the MACs of their bridges.
const (
	neighbours      = "neighbours"
	neighboursApart = "neighbours-apart"
	gateways        = "gateways"
)

// Names of chains of frames: from neighbours that are apart, and from others.
const (
	fromApart  = "from-apart"
	fromOthers = "from-others"
)

// destinationMAC is that of the frame.
var destinationMAC = netfilter.PayloadPart(expr.PayloadBaseLLHeader, 0, macLength)

// neighbourChain adds the chain of frames that may be what they say. By it the host routes what is sent to the MAC of a neighbour that is apart, or by one that is: it
// was known before it became apart, and the bridge forwards nothing to it. What neighbours ask each other is left to the host's answers.
func (t *table) neighbourChain() {
	mac := []netfilter.KeyType{netfilter.MAC}
	for _, name := range []string{neighbours, neighboursApart} {
		t.set(netfilter.KeySet{Name: name, Key: mac})
	}
	t.set(netfilter.KeySet{Name: gateways, Key: linkSet, Data: netfilter.MAC})
	discovery := match{}
	for _, part := range []match{ip6.isFrame(), protocol(expr.CmpOpEq, ip6.icmp), header(0, expr.CmpOpGte, neighbourSolicitation), header(0, expr.CmpOpLte, neighbourAdvertisement)} {
		discovery = append(discovery, part...)
	}
	t.chain("routed", "to neighbours that are apart, or from these",
		rule("ARP", isEtherType(arpType), accept), rule("neighbour discovery", discovery, accept),
		rule("from a neighbour that is apart", netfilter.KeyIn(apart, true, inLink), goTo(fromApart)), rule("from others", goTo(fromOthers)))
	all := rule("all of these", accept) // else the chain that led here would go on
	t.chain(fromApart, "from neighbours that are apart", rule("to a neighbour", netfilter.KeyIn(neighbours, true, destinationMAC), toGateway()), all)
	t.chain(fromOthers, "from others", rule("to a neighbour that is apart", netfilter.KeyIn(neighboursApart, true, destinationMAC), toGateway()), all)
}

// toGateway makes of a frame one to its bridge, as if it had been sent to that.
func toGateway() match {
	return append(netfilter.KeyValue(gateways, inLink),
		&expr.Payload{OperationType: expr.PayloadWrite, Base: expr.PayloadBaseLLHeader, Len: macLength, SourceRegister: netfilter.Register},
		&expr.Immediate{Register: netfilter.Register, Data: []byte{0}}, // of PACKET_HOST
		&expr.Meta{Key: expr.MetaKeyPKTTYPE, SourceRegister: true, Register: netfilter.Register})
}

// neighbour adds what frames from its neighbours, and to them, are recognized by.
func (e *elements) neighbour(k *kind, gateway net.HardwareAddr) {
	if e.End == "" || e.Bridge == "" {
		return
	}
	if len(gateway) == macLength {
		e.add(netfilter.Bridge, gateways, netfilter.Element{Data: gateway}, netfilter.LinkKey(e.End))
	}
	if len(e.MAC) != macLength {
		return
	}
	e.add(netfilter.Bridge, neighbours, netfilter.Element{}, e.MAC)
	if e.isApart(k) {
		e.add(netfilter.Bridge, neighboursApart, netfilter.Element{}, e.MAC)
	}
}

// gatewayOf returns the MAC of the bridge of an attachment, as its elements have it; nil: it is on none. The error is ENOENT if it is unknown.
func gatewayOf(s *netfilter.Socket, m *Member) (net.HardwareAddr, error) {
	if m.Bridge == "" {
		return nil, nil
	}
	e, _, err := s.Element(&netfilter.Table{Family: netfilter.Bridge, Name: name}, gateways, netfilter.LinkKey(m.End))
	if err == nil && e.Data == nil {
		err = unix.ENOENT
	}
	return e.Data, err
}

// bridgeMACs returns the MACs of the bridges of attachments. One that is gone has none.
func bridgeMACs(all []Member) (map[string]net.HardwareAddr, error) {
	found := map[string]net.HardwareAddr{}
	for i := range all {
		bridgeName := all[i].Bridge
		if _, ok := found[bridgeName]; ok || bridgeName == "" {
			continue
		}
		link, err := netlink.LinkByName(bridgeName)
		if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
			found[bridgeName] = nil
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("isolation: get link %s: %w", bridgeName, err)
		}
		found[bridgeName] = link.Attrs().HardwareAddr
	}
	return found, nil
}
