// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/kernelevents"
)

// links are links, addresses and routes of the host and of its allocations.
var links = kernelevents.Subscription{
	Protocol: unix.NETLINK_ROUTE,
	Groups: []uint{
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
		unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
	},
	AllNamespaces: true,
}

// Watch returns a channel that gets a value at once, as a round that has begun before may have missed
// what was removed meanwhile, and then when something was removed from the host's kernel tables, or from those of a namespace that a veth interface leads to. Several are one value, and
// so is a loss of messages. What is added is not told. The channel is closed when the context ends
// or nothing can be heard any more.
func Watch(ctx context.Context) (<-chan struct{}, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{changes: make(chan struct{}, 1), cancel: cancel}
	for _, source := range []struct {
		kernelevents.Subscription
		removes func(syscall.NetlinkMessage) bool
	}{{links, removesLink}, {kernelevents.NFTables, removesRule}} {
		w.sources.Add(1)
		if err := source.Start(ctx, w.listener(source.removes)); err != nil {
			w.sources.Done()
			cancel()
			w.end()
			return nil, err
		}
	}
	w.tell()
	w.sources.Go(func() { watchLegacy(ctx, legacySizes, w.tell) })
	go w.end()
	return w.changes, nil
}

// watch has several sources of changes, which end together.
type watch struct {
	changes chan struct{}
	cancel  context.CancelFunc
	sources sync.WaitGroup
}

// end closes the channel when no source is left.
func (w *watch) end() {
	w.sources.Wait()
	w.cancel()
	close(w.changes)
}

func (w *watch) tell() { kick(w.changes) }

func (w *watch) listener(removes func(syscall.NetlinkMessage) bool) kernelevents.Listener {
	return kernelevents.Listener{
		Seen: func(m syscall.NetlinkMessage) {
			if removes(m) {
				w.tell()
			}
		},
		Lost:  w.tell,
		Ended: func() { w.cancel(); w.sources.Done() },
	}
}

// removesLink tells whether an attachment may have lost something. A link that is down has lost its
// routes, of which the kernel does not tell.
func removesLink(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_DELLINK, // also a port that has left its bridge
		unix.RTM_DELADDR, unix.RTM_DELROUTE, unix.RTM_DELRULE:
		return true
	case unix.RTM_NEWLINK:
		return len(m.Data) < unix.SizeofIfInfomsg || nl.DeserializeIfInfomsg(m.Data).Flags&unix.IFF_UP == 0
	}
	return false
}

func removesRule(m syscall.NetlinkMessage) bool {
	switch m.Header.Type &^ (unix.NFNL_SUBSYS_NFTABLES << 8) {
	case unix.NFT_MSG_DELTABLE, unix.NFT_MSG_DELCHAIN, unix.NFT_MSG_DELRULE:
		return true
	}
	return false
}
