// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"fmt"
	"net"
	"time"

	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
)

// link sends and receives packets of IPv4 or IPv6 of one interface.
type link interface {
	// Send sends a packet to a link-layer address.
	Send(p []byte, hop net.HardwareAddr) error
	// Receive returns a packet and the link-layer address that it is from. At the deadline the error is a timeout.
	Receive(deadline time.Time) (p []byte, hop net.HardwareAddr, err error)
	Close() error
}

// broadcast is the link-layer address of all.
var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// maxPacket is longer than each packet that is asked for.
const maxPacket = 2048

// answers has the kernel pass on only datagrams to the port of clients: the interface may be busy.
var answers = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 9, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: udp, SkipFalse: 4},
	bpf.LoadMemShift{Off: 0},
	bpf.LoadIndirect{Off: 2, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: clientPort, SkipFalse: 1},
	bpf.RetConstant{Val: maxPacket},
	bpf.RetConstant{Val: 0},
}

// answersIPv6 is the same for IPv6.
var answersIPv6 = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 6, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: udp, SkipFalse: 3},
	bpf.LoadAbsolute{Off: ipv6Header + 2, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: clientPortIPv6, SkipFalse: 1},
	bpf.RetConstant{Val: maxPacket},
	bpf.RetConstant{Val: 0},
}

// socket is a link of the kernel, which needs no address.
type socket struct{ conn *packet.Conn }

// openSocket opens an interface of the namespace of the thread, for the packets of a protocol that a filter lets through.
func openSocket(iface *net.Interface, protocol int, through []bpf.Instruction) (*socket, error) {
	filter, err := bpf.Assemble(through)
	if err != nil {
		return nil, err
	}
	conn, err := packet.Listen(iface, packet.Datagram, protocol, &packet.Config{Filter: filter})
	if err != nil {
		return nil, fmt.Errorf("open interface %s: %w", iface.Name, err)
	}
	return &socket{conn}, nil
}

func (s *socket) Send(p []byte, hop net.HardwareAddr) error {
	_, err := s.conn.WriteTo(p, &packet.Addr{HardwareAddr: hop})
	return err
}

func (s *socket) Receive(deadline time.Time) (p []byte, hop net.HardwareAddr, err error) {
	if err := s.conn.SetReadDeadline(deadline); err != nil {
		return nil, nil, err
	}
	p = make([]byte, maxPacket)
	n, from, err := s.conn.ReadFrom(p)
	if err != nil {
		return nil, nil, err
	}
	if a, ok := from.(*packet.Addr); ok {
		hop = a.HardwareAddr
	}
	return p[:n], hop, nil
}

func (s *socket) Close() error { return s.conn.Close() }
