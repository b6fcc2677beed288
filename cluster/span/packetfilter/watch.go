// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package packetfilter

import (
	"context"
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/kernelevents"
)

// Watch tells of changes after which Keep may have something to do: of firewalld's table, of chains of forwarded
// packets, and of rules beside ours and in our chain. Of legacy tables the kernel tells nothing. Watch
// returns when the context ends, or the kernel cannot be asked any more.
func Watch(ctx context.Context, changed func()) error {
	ended := make(chan struct{})
	err := kernelevents.NFTables.Start(ctx, kernelevents.Listener{
		Seen: func(m syscall.NetlinkMessage) {
			if isOfConcern(m) {
				changed()
			}
		},
		Lost:  changed,
		Ended: func() { close(ended) },
	})
	if err == nil {
		<-ended
	}
	return err
}

func isOfConcern(m syscall.NetlinkMessage) bool {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < nl.SizeofNfgenmsg {
		return false
	}
	a := kernelevents.AttributesOf(m.Data[nl.SizeofNfgenmsg:])
	switch m.Header.Type & 0xff {
	case unix.NFT_MSG_NEWTABLE:
		return a.Text(unix.NFTA_TABLE_NAME) == "firewalld"
	case unix.NFT_MSG_NEWCHAIN:
		hook := kernelevents.AttributesOf(a[unix.NFTA_CHAIN_HOOK])[unix.NFTA_HOOK_HOOKNUM]
		return len(hook) == 4 && binary.BigEndian.Uint32(hook) == unix.NF_INET_FORWARD
	case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
		return a.Text(unix.NFTA_RULE_TABLE) == "filter" && slices.Contains([]string{"FORWARD", chainName}, a.Text(unix.NFTA_RULE_CHAIN))
	}
	return false
}
