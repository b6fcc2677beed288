// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package flows has the kernel forget tracked flows that began while rules of an attachment were missing. As long as it
// tracks such a flow, it does not translate its packets, although the rules are back.
package flows

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Flow is one that the kernel tracks. Package vishvananda/netlink does not tell whether it has been
// answered.
type Flow struct {
	// Original are the addresses of its first packet, and reply those of packets in the other
	// direction: what is translated, these do not share.
	Original, Reply tuple
	Protocol        uint8
	// answered is whether there have been packets in both directions.
	answered bool
	// state is that of TCP.
	state uint8
	// message is what the kernel says of it, and identifies it.
	message []byte
}

type tuple struct {
	Source, Destination         netip.Addr
	SourcePort, DestinationPort uint16
}

const seenReply = 1 << 1

// nfgenmsgLength is the length of what precedes the attributes of a message.
const nfgenmsgLength = 4

func parseFlow(message []byte) (Flow, error) {
	f := Flow{message: message}
	if len(message) < nfgenmsgLength {
		return f, fmt.Errorf("a flow of %d bytes", len(message))
	}
	attributes, err := netlink.NewAttributeDecoder(message[nfgenmsgLength:])
	if err != nil {
		return f, err
	}
	attributes.ByteOrder = binary.BigEndian
	for attributes.Next() {
		switch attributes.Type() {
		case nl.CTA_TUPLE_ORIG:
			attributes.Nested(func(a *netlink.AttributeDecoder) error { return f.parseTuple(a, &f.Original) })
		case nl.CTA_TUPLE_REPLY:
			attributes.Nested(func(a *netlink.AttributeDecoder) error { return f.parseTuple(a, &f.Reply) })
		case nl.CTA_STATUS:
			f.answered = attributes.Uint32()&seenReply != 0
		case nl.CTA_PROTOINFO:
			attributes.Nested(f.parseState)
		}
	}
	return f, attributes.Err()
}

func (f *Flow) parseTuple(attributes *netlink.AttributeDecoder, t *tuple) error {
	for attributes.Next() {
		switch attributes.Type() {
		case nl.CTA_TUPLE_IP:
			attributes.Nested(t.parseAddresses)
		case nl.CTA_TUPLE_PROTO:
			attributes.Nested(func(a *netlink.AttributeDecoder) error { return f.parsePorts(a, t) })
		}
	}
	return nil
}

func (t *tuple) parseAddresses(attributes *netlink.AttributeDecoder) error {
	for attributes.Next() {
		address, _ := netip.AddrFromSlice(attributes.Bytes())
		switch attributes.Type() {
		case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
			t.Source = address
		case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
			t.Destination = address
		}
	}
	return nil
}

func (f *Flow) parsePorts(attributes *netlink.AttributeDecoder, t *tuple) error {
	for attributes.Next() {
		switch attributes.Type() {
		case nl.CTA_PROTO_NUM:
			f.Protocol = attributes.Uint8()
		case nl.CTA_PROTO_SRC_PORT:
			t.SourcePort = attributes.Uint16()
		case nl.CTA_PROTO_DST_PORT:
			t.DestinationPort = attributes.Uint16()
		}
	}
	return nil
}

func (f *Flow) parseState(attributes *netlink.AttributeDecoder) error {
	for attributes.Next() {
		if attributes.Type() == nl.CTA_PROTOINFO_TCP {
			attributes.Nested(func(a *netlink.AttributeDecoder) error {
				for a.Next() {
					if a.Type() == nl.CTA_PROTOINFO_TCP_STATE {
						f.state = a.Uint8()
					}
				}
				return nil
			})
		}
	}
	return nil
}

// socket is a connection to the flows of this network namespace.
type socket struct{ *netlink.Conn }

func dial(ctx context.Context) (*socket, error) {
	conn, err := netfilter.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &socket{conn.Conn}, nil
}

func (s *socket) list() ([]Flow, error) {
	messages, err := s.Execute(flowRequest(nl.IPCTNL_MSG_CT_GET, netlink.Dump, []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}))
	if err != nil {
		return nil, err
	}
	flows := make([]Flow, len(messages))
	for i, m := range messages {
		if flows[i], err = parseFlow(m.Data); err != nil {
			return nil, err
		}
	}
	return flows, nil
}

// forget has the kernel forget a flow: it decides about the next packet as about a first one. That
// it has ended meanwhile is no error.
func (s *socket) forget(f Flow) error {
	_, err := s.Execute(flowRequest(nl.IPCTNL_MSG_CT_DELETE, netlink.Acknowledge, f.message))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func flowRequest(kind uint16, flags netlink.HeaderFlags, data []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_CTNETLINK<<8 | kind), Flags: netlink.Request | flags},
		Data:   data,
	}
}
