// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package kernelevents

import (
	"context"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// answers are what a socket returns, one after the other.
type answers []func() ([]syscall.NetlinkMessage, error)

func (a *answers) Receive() ([]syscall.NetlinkMessage, *unix.SockaddrNetlink, error) {
	next := (*a)[0]
	*a = (*a)[1:]
	messages, err := next()
	return messages, nil, err
}

// heard is what a listener has heard: the types of messages, and -1 for those that were lost.
type heard []int

func (h *heard) listener() Listener {
	return Listener{
		Seen: func(m syscall.NetlinkMessage) { *h = append(*h, int(m.Header.Type)) },
		Lost: func() { *h = append(*h, -1) },
	}
}

// TestReceive: one who was too slow is told once, and hears on until the socket fails.
func TestReceive(t *testing.T) {
	fail := func(err error) func() ([]syscall.NetlinkMessage, error) {
		return func() ([]syscall.NetlinkMessage, error) { return nil, err }
	}
	message := func(kind uint16) syscall.NetlinkMessage {
		return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}}
	}
	a := answers{
		fail(unix.EINTR), fail(unix.ENOBUFS), fail(unix.EAGAIN),
		func() ([]syscall.NetlinkMessage, error) {
			return []syscall.NetlinkMessage{message(unix.RTM_DELLINK), message(unix.RTM_NEWADDR)}, nil
		},
		fail(unix.EBADF),
	}
	var h heard
	receive(t.Context(), &a, h.listener())
	if want := []int{-1, unix.RTM_DELLINK, unix.RTM_NEWADDR}; !slices.Equal(h, want) {
		t.Errorf("%v, want %v", h, want)
	}
}

// TestEnd: the end of the context ends the subscription, which needs no rights.
func TestEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	l := Listener{Seen: func(syscall.NetlinkMessage) {}, Lost: func() {}, Ended: func() { close(ended) }}
	s := Subscription{Protocol: unix.NETLINK_ROUTE, Groups: []uint{unix.RTNLGRP_LINK}}
	if err := s.Start(ctx, l); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
}
