// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/kernelevents"
	"github.com/allocnet/allocnet/isolation"
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

// inside are the tables of nftables of allocations.
var inside = kernelevents.Subscription{Protocol: unix.NETLINK_NETFILTER, Groups: []uint{unix.NFNLGRP_NFTABLES}, AllNamespaces: true}

// Watch calls removed at once, as a round that has begun before may have missed what was removed
// meanwhile, and then when something was removed from the host's kernel tables, or from those of a
// namespace that has an ID in the host's. A loss of messages counts as a removal; what is added is
// not told. It may be called by several goroutines at once. Without the right to hear of namespaces,
// which it calls deaf with, Watch tells of the host. It returns when the context ends or nothing can be
// heard any more.
func Watch(ctx context.Context, removed func(Removal), deaf func(error)) error {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{removed: removed}
	defer w.sources.Wait()
	defer cancel()
	for _, source := range []struct {
		kernelevents.Subscription
		kernelevents.Listener
	}{{links, w.links()}, {kernelevents.NFTables, w.rules(ownProcesses().remover)}, {inside, w.inside()}} {
		w.sources.Add(1)
		source.Ended = func() { cancel(); w.sources.Done() }
		err := source.Start(ctx, source.Listener)
		if source.AllNamespaces && errors.Is(err, unix.EPERM) { // CAP_NET_BROADCAST
			deaf(err)
			source.AllNamespaces = false
			err = source.Start(ctx, source.Listener)
		}
		if err != nil {
			w.sources.Done()
			return err
		}
	}
	w.tell()
	watchLegacy(ctx, legacySizes, w.tell)
	return nil
}

// watch has several sources of changes, which end together.
type watch struct {
	removed func(Removal)
	sources sync.WaitGroup
}

func (w *watch) tell() { w.removed(Removal{}) }

// links returns what hears of links, addresses and routes.
func (w *watch) links() kernelevents.Listener {
	return kernelevents.Listener{Lost: w.tell, Seen: func(m syscall.NetlinkMessage) {
		if removesLink(m) {
			w.tell()
		}
	}}
}

// inside returns what hears of the tables of isolation in namespaces, in which others come and go.
func (w *watch) inside() kernelevents.Listener {
	return kernelevents.Listener{Lost: w.tell, Seen: func(m syscall.NetlinkMessage) {
		if removesRule(m) && isOfIsolation(m) {
			w.tell()
		}
	}}
}

// rules returns what hears of nftables: of each change of a transaction, and then of its thread.
func (w *watch) rules(lookup func(thread int, name string) (hook.Remover, bool)) kernelevents.Listener {
	var t transaction
	lost := func() {
		t = transaction{}
		w.tell()
	}
	return kernelevents.Listener{Lost: lost, Seen: func(m syscall.NetlinkMessage) {
		if removesRule(m) {
			t.add(m)
			w.tell()
		}
		if m.Header.Type == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN {
			if r, isKnown := t.commit(m, lookup); isKnown {
				w.removed(r)
			}
		}
	}}
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
	case unix.NFT_MSG_DELSET, unix.NFT_MSG_DELSETELEM:
		return isOfIsolation(m)
	}
	return false
}

// isOfIsolation tells whether a message is about the tables of isolation, or something in them. In those of other programs elements come and go.
func isOfIsolation(m syscall.NetlinkMessage) bool {
	if len(m.Data) < nl.SizeofNfgenmsg {
		return true
	}
	table := kernelevents.AttributesOf(m.Data[nl.SizeofNfgenmsg:]).Text(unix.NFTA_SET_ELEM_LIST_TABLE) // and NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, ...
	return strings.HasPrefix(table, isolation.Table)
}
