// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// link is the message of an interface with flags.
func link(kind uint16, flags uint32) syscall.NetlinkMessage {
	m := syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: make([]byte, unix.SizeofIfInfomsg)}
	binary.NativeEndian.PutUint32(m.Data[8:], flags)
	return m
}

func message(kind uint16) syscall.NetlinkMessage {
	return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}}
}

// TestRemovals: what is removed, or down, is told, and what is added is not: set-ups and repairs
// add much.
func TestRemovals(t *testing.T) {
	for name, test := range map[string]struct{ got, want bool }{
		"link gone":        {removesLink(link(unix.RTM_DELLINK, unix.IFF_UP)), true},
		"link down":        {removesLink(link(unix.RTM_NEWLINK, unix.IFF_BROADCAST)), true},
		"link cut short":   {removesLink(message(unix.RTM_NEWLINK)), true},
		"link up":          {removesLink(link(unix.RTM_NEWLINK, unix.IFF_UP|unix.IFF_BROADCAST)), false},
		"address gone":     {removesLink(message(unix.RTM_DELADDR)), true},
		"address":          {removesLink(message(unix.RTM_NEWADDR)), false},
		"route gone":       {removesLink(message(unix.RTM_DELROUTE)), true},
		"route":            {removesLink(message(unix.RTM_NEWROUTE)), false},
		"routing rule":     {removesLink(message(unix.RTM_DELRULE)), true},
		"table gone":       {removesRule(message(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELTABLE)), true},
		"chain gone":       {removesRule(message(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELCHAIN)), true},
		"rule gone":        {removesRule(message(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELRULE)), true},
		"rule":             {removesRule(message(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWRULE)), false},
		"a new generation": {removesRule(message(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWGEN)), false},
		"element gone":     {removesRule(element(unix.NFT_MSG_DELSETELEM, "allocnet-isolation")), true},
		"another's gone":   {removesRule(element(unix.NFT_MSG_DELSETELEM, "fail2ban")), false},
		"element":          {removesRule(element(unix.NFT_MSG_NEWSETELEM, "allocnet-isolation")), false},
		"set gone":         {removesRule(element(unix.NFT_MSG_DELSET, "allocnet-isolation")), true},
	} {
		if test.got != test.want {
			t.Errorf("%s: %t, want %t", name, test.got, test.want)
		}
	}
}

// element is a message about a set of a table, or about its elements.
func element(kind uint16, table string) syscall.NetlinkMessage {
	return change(kind, unix.NFPROTO_INET, map[uint16][]byte{unix.NFTA_SET_ELEM_LIST_TABLE: nl.ZeroTerminated(table)})
}

// TestTold: a removal is told, and so is a loss of messages: one may have been lost.
func TestTold(t *testing.T) {
	told := 0
	w := &watch{removed: func(Removal) { told++ }}
	rules, links := w.rules(nil), w.links()
	for name, tell := range map[string]func(){
		"a rule":          func() { rules.Seen(message(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELRULE)) },
		"a link":          func() { links.Seen(link(unix.RTM_DELLINK, 0)) },
		"a loss of rules": func() { rules.Lost() },
		"a loss of links": func() { links.Lost() },
	} {
		told = 0
		if tell(); told != 1 {
			t.Errorf("%s: told %d times, want once", name, told)
		}
	}
	told = 0
	w.inside().Seen(change(unix.NFT_MSG_DELTABLE, unix.NFPROTO_INET, map[uint16][]byte{unix.NFTA_TABLE_NAME: nl.ZeroTerminated("allocnet-isolation-out")}))
	w.inside().Seen(change(unix.NFT_MSG_DELRULE, unix.NFPROTO_INET, map[uint16][]byte{unix.NFTA_RULE_TABLE: nl.ZeroTerminated("allocnet-isolation")}))
	w.inside().Lost()
	if told != 3 {
		t.Errorf("told %d times of the tables of isolation in namespaces, want 3 times", told)
	}
	told = 0
	w.inside().Seen(change(unix.NFT_MSG_DELTABLE, unix.NFPROTO_INET, map[uint16][]byte{unix.NFTA_TABLE_NAME: nl.ZeroTerminated("nat")})) // of a task
	rules.Seen(message(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWRULE))
	links.Seen(link(unix.RTM_NEWLINK, unix.IFF_UP))
	if told > 0 {
		t.Error("an addition is told")
	}
}

// TestLegacy: a table that has become smaller is told, and one that has grown is not.
func TestLegacy(t *testing.T) {
	nat, filter := legacyTable{netfilter.IPv4, "nat"}, legacyTable{netfilter.IPv6, "filter"}
	for name, test := range map[string]struct {
		before, after map[legacyTable]int
		want          int
	}{
		"nothing":    {nil, nil, 0},
		"the same":   {map[legacyTable]int{nat: 800}, map[legacyTable]int{nat: 800}, 0},
		"a new one":  {map[legacyTable]int{nat: 800}, map[legacyTable]int{nat: 800, filter: 400}, 0},
		"grown":      {map[legacyTable]int{nat: 800}, map[legacyTable]int{nat: 900}, 0},
		"smaller":    {map[legacyTable]int{nat: 800, filter: 400}, map[legacyTable]int{nat: 700, filter: 500}, 1},
		"gone":       {map[legacyTable]int{filter: 400}, nil, 1},
		"two of two": {map[legacyTable]int{nat: 800, filter: 400}, map[legacyTable]int{}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), 5*legacyPause/2) // two looks
				defer stop()
				looks, told := 0, 0
				watchLegacy(ctx, func() map[legacyTable]int {
					looks++
					if looks == 1 {
						return test.before
					}
					return test.after
				}, func() { told++ })
				if told != test.want || looks != 3 {
					t.Errorf("told %d times in %d looks, want %d", told, looks, test.want)
				}
			})
		})
	}
}

// TestWatchEnds: it tells at once, and returns when the context ends. Those who may not hear of rules
// get an error.
func TestWatchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := Watch(ctx, func(Removal) { cancel() }, func(error) {}); err != nil && !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
}
