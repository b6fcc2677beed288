// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ofCaller are those of the caller's namespace.
var ofCaller = keptAddresses{list: func() ([]netlink.Addr, error) {
	return Whole(func() ([]netlink.Addr, error) { return (&netlink.Handle{}).AddrList(nil, netlink.FAMILY_ALL) })
}}

// keptAddresses are the addresses of a namespace as they were listed last, until the kernel tells of a change: to list them, it goes
// through all links. It tells before the call returns that changes one, but of an IPv6 address without duplicate address detection, and of
// one that it forms itself, only when that is ready: some milliseconds, and a second or two, later.
type keptAddresses struct {
	list func() ([]netlink.Addr, error)

	mu sync.Mutex
	// namespace is the inode of that whose changes the socket hears. 0: there is no socket.
	namespace uint64
	socket    int
	// known is whether all is what was listed since then.
	known bool
	all   []netlink.Addr
}

func (k *keptAddresses) get() ([]netlink.Addr, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hear() != nil { // such as without /proc
		return k.list()
	}
	if k.changed() || !k.known {
		var err error
		k.all, err = k.list()
		k.known = err == nil
		return k.all, err
	}
	return k.all, nil
}

// hear has the socket be one of the caller's namespace.
func (k *keptAddresses) hear() error {
	var own unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &own); err != nil || own.Ino == k.namespace {
		return err
	}
	if k.namespace != 0 {
		_ = unix.Close(k.socket) // read only
	}
	k.namespace, k.known = 0, false
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	if err := unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR}); err != nil {
		return errors.Join(err, unix.Close(socket))
	}
	k.namespace, k.socket = own.Ino, socket
	return nil
}

// changed tells whether the kernel has told of a change since the last call. An error is one: what did not fit is lost.
func (k *keptAddresses) changed() (changed bool) {
	for message := make([]byte, 1); ; changed = true { // the rest of it is of no interest
		if _, _, err := unix.Recvfrom(k.socket, message, 0); errors.Is(err, unix.EAGAIN) {
			return changed
		}
	}
}
