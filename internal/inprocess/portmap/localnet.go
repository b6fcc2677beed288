// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"context"
	"net"
	"slices"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// loopbackGuard is a table that drops what comes to 127.0.0.0/8 from elsewhere: by a link with route_localnet the kernel
// lets it in, and a task would reach services that listen on 127.0.0.1. Replies to connections from there have another
// destination until they are translated. A host may use addresses of 127.0.0.0/8 on links of its own: what comes by the link
// that has the destination goes on, and what goes from one such link to another. Whatever the backend of a network is, the
// table stays as route_localnet does.
var loopbackGuard = &netfilter.Table{
	Family: netfilter.IPv4, Name: "allocnet_loopback", Comment: "nothing from elsewhere to 127.0.0.0/8",
	Chains: []netfilter.Chain{{
		Name: guardChain,
		Hook: &netfilter.Hook{Number: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw, Filters: true},
		Rules: []netfilter.Rule{
			{Chain: guardChain, Exprs: slices.Concat(
				elsewhereMatch(),
				netfilter.DestinationMatch(expr.CmpOpEq, loopback),
				netfilter.SourceMatch(expr.CmpOpEq, loopback),
				sourceLinkMatch(),
				netfilter.Verdict(expr.VerdictReturn, ""),
			)},
			{Chain: guardChain, Exprs: slices.Concat(
				elsewhereMatch(),
				netfilter.DestinationMatch(expr.CmpOpEq, loopback),
				foreignAddressMatch(),
				netfilter.Verdict(expr.VerdictDrop, ""),
			)},
		},
	}},
}

const guardChain = "prerouting"

var loopback = net.IPNet{IP: net.IPv4(127, 0, 0, 0), Mask: net.CIDRMask(8, 32)}

// elsewhereMatch compares the link by which packets came with lo.
func elsewhereMatch() []expr.Any {
	return netfilter.LinkMatch(expr.MetaKeyIIFNAME, expr.CmpOpNeq, "lo")
}

// sourceLinkMatch tells whether the host sends to the packet's source by the link by which it came.
func sourceLinkMatch() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: netfilter.Register, FlagSADDR: true, FlagIIF: true, FlagPRESENT: true, ResultOIF: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: netfilter.Register, Data: []byte{1, 0, 0, 0}},
	}
}

// foreignAddressMatch tells whether the link by which the packet came lacks its destination.
func foreignAddressMatch() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: netfilter.Register, FlagDADDR: true, FlagIIF: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: netfilter.Register, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

// guardRules are those of the guard, which belong to no attachment.
func guardRules() rules.Change {
	return rules.Change{NFTables: &rules.NFTables{Table: loopbackGuard, Owns: func(string) bool { return false }}}
}

// GuardLoopback keeps what comes from elsewhere from 127.0.0.0/8, for plugins that set route_localnet. It is safe to repeat.
// The error is that of a kernel without nftables.
func GuardLoopback(ctx context.Context) error {
	socket, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer socket.Close()
	return socket.Change(func(b *netfilter.Batch) error { return b.MakeTable(loopbackGuard) })
}

// routesLocalnet tells whether connections from 127.0.0.0/8 are let out to the addresses: not where nothing guards
// what they let in.
func (conf *config) routesLocalnet() bool {
	isV4 := func(address net.IPNet) bool { return links.IsIPv4(address.IP) }
	return conf.snat() && slices.ContainsFunc(conf.addresses, isV4) && supportsGuard()
}

var guardAccepted atomic.Bool

// supportsGuard tells whether the kernel accepts the guard. One without nftables does not, nor one whose nftables cannot look
// into routes. It is asked without a change, where the guard is not there: that takes as long as a change.
func supportsGuard() bool {
	if guardAccepted.Load() {
		return true
	}
	socket, err := netfilter.Dial(context.Background())
	if err != nil {
		return false
	}
	defer socket.Close()
	existing, err := socket.List(loopbackGuard, guardChain)
	if err == nil && netfilter.SameRules(existing, loopbackGuard.Chains[0].Rules, loopbackGuard.Family) || socket.Try(loopbackGuard) == nil {
		guardAccepted.Store(true)
	}
	return guardAccepted.Load()
}
