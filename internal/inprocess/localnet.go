// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"net"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// loopbackGuard is a table that drops what comes to 127.0.0.0/8 from elsewhere: by a link with route_localnet the kernel
// lets it in, and a task would reach services that listen on 127.0.0.1. Replies to connections from there have another
// destination until they are translated. Whatever the backend of a network is, it stays as route_localnet does.
var loopbackGuard = &nftablesTable{
	family: nftables.TableFamilyIPv4, name: "allocnet_loopback", comment: "nothing from elsewhere to 127.0.0.0/8",
	chains: []nftablesChain{{
		name: "prerouting",
		hook: &nftablesHook{number: nftables.ChainHookPrerouting, priority: nftables.ChainPriorityRaw, filters: true},
		rules: []nftablesRule{{chain: "prerouting", exprs: statement(
			elsewhereMatch(),
			destinationMatch(expr.CmpOpEq, net.IPNet{IP: net.IPv4(127, 0, 0, 0), Mask: net.CIDRMask(8, 32)}),
			verdict(expr.VerdictDrop, ""),
		)}},
	}},
}

// elsewhereMatch compares the link by which packets came with lo.
func elsewhereMatch() []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, "lo")
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: name},
	}
}

// guardRules are those of the guard, which belong to no attachment.
func guardRules() rules {
	return rules{nftables: &nftablesRules{table: loopbackGuard, owns: func(string) bool { return false }}}
}

// GuardLoopback keeps what comes from elsewhere from 127.0.0.0/8, for plugins that set route_localnet. It is safe to repeat.
// The error is that of a kernel without nftables.
func GuardLoopback(ctx context.Context) error {
	socket, err := dialNFTables(ctx)
	if err != nil {
		return err
	}
	defer socket.Close() //nolint:errcheck // nothing is left to send
	return socket.commit([]*Changes{{rules: []rules{guardRules()}}})
}

// routesLocalnet tells whether connections from 127.0.0.0/8 are let out to the addresses: not where the kernel has no
// nftables, and nothing guards what they let in.
func (conf *portmapConfig) routesLocalnet() bool {
	isV4 := func(address net.IPNet) bool { return isIPv4(address.IP) }
	return conf.snat() && slices.ContainsFunc(conf.addresses, isV4) && supportsNFTables()
}
