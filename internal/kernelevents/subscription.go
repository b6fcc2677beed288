// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package kernelevents receives what the kernel tells of changes, by netlink. See netlink(7).
package kernelevents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Subscription is what the kernel is asked to tell.
type Subscription struct {
	// Protocol is that of netlink, as unix.NETLINK_ROUTE. Groups are groups of it, at most 32.
	Protocol int
	Groups   []uint
	// AllNamespaces is whether it also tells of the network namespaces that have an ID in the
	// caller's, such as those that have the peer of a veth interface. They are not kept alive.
	AllNamespaces bool
}

// NFTables tells of the tables, chains and rules of nftables, which iptables-nft makes as well.
var NFTables = Subscription{Protocol: unix.NETLINK_NETFILTER, Groups: []uint{unix.NFNLGRP_NFTABLES}}

// Listener hears of what happens. Its functions are called one after the other.
type Listener struct {
	// Seen gets each message.
	Seen func(syscall.NetlinkMessage)
	// Lost is called when there were more messages than the kernel had room for.
	Lost func()
	// Ended is called once, when the context has ended or the socket has failed.
	Ended func()
}

// receiveBuffer has room for the messages of some thousand changes.
const receiveBuffer = 1 << 20

// Start subscribes, and returns. The listener hears of what happens from then on until the
// context ends. After an error it hears nothing.
func (s Subscription) Start(ctx context.Context, l Listener) error {
	socket, err := nl.Subscribe(s.Protocol, s.Groups...)
	if err != nil {
		return fmt.Errorf("subscribe to changes of the kernel's tables: %w", err)
	}
	if s.AllNamespaces {
		if err := unix.SetsockoptInt(socket.GetFd(), unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1); err != nil {
			socket.Close()
			return fmt.Errorf("subscribe to changes in network namespaces: %w", err)
		}
	}
	_ = socket.SetReceiveBufferSize(receiveBuffer, true) // with less, more is lost, which is told
	stop := context.AfterFunc(ctx, socket.Close)
	go func() {
		defer l.Ended()
		defer socket.Close()
		defer stop()
		receive(ctx, socket, l)
	}()
	return nil
}

type receiver interface {
	Receive() ([]syscall.NetlinkMessage, *unix.SockaddrNetlink, error)
}

func receive(ctx context.Context, r receiver, l Listener) {
	for ctx.Err() == nil {
		messages, _, err := r.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			l.Lost()
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case err != nil:
			return
		}
		for _, m := range messages {
			l.Seen(m)
		}
	}
}

// Attributes are those of a message, by type.
type Attributes map[uint16][]byte

// AttributesOf reads attributes; none if they are damaged.
func AttributesOf(data []byte) Attributes {
	list, err := nl.ParseRouteAttr(data)
	if err != nil {
		return nil
	}
	a := Attributes{}
	for _, one := range list {
		a[one.Attr.Type&nl.NLA_TYPE_MASK] = one.Value
	}
	return a
}

// Text returns an attribute that is text; empty if there is none.
func (a Attributes) Text(kind uint16) string {
	text, _, _ := bytes.Cut(a[kind], []byte{0})
	return string(text)
}
