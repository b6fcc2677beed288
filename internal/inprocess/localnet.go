// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"regexp"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Chains of loopbackGuard.
const (
	guardEntry = "prerouting"
	guardLinks = "links"
)

// loopbackGuard is a table that drops what comes to 127.0.0.0/8 by the links for which publishing a port has set
// route_localnet: there the kernel lets it in, and a task would reach services that listen on 127.0.0.1. Other links are
// not in it: a host may use addresses of 127.0.0.0/8 on links of its own. Replies to connections from there have another
// destination until they are translated. Whatever the backend of a network is, it stays as route_localnet does.
var loopbackGuard = &nftablesTable{
	family: nftables.TableFamilyIPv4, name: "allocnet_loopback", comment: "nothing from allocations to 127.0.0.0/8",
	chains: []nftablesChain{
		{name: guardLinks},
		{
			name: guardEntry,
			hook: &nftablesHook{number: nftables.ChainHookPrerouting, priority: nftables.ChainPriorityRaw, filters: true},
			// The links are looked through for such packets alone: each attachment of ptp has one of its own.
			rules: []nftablesRule{{chain: guardEntry, exprs: statement(
				destinationMatch(expr.CmpOpEq, net.IPNet{IP: net.IPv4(127, 0, 0, 0), Mask: net.CIDRMask(8, 32)}),
				verdict(expr.VerdictJump, guardLinks),
			)}},
		},
	},
}

// linkMatch compares the name of the link by which packets came.
func linkMatch(link string) []expr.Any {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, link)
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: name},
	}
}

// guardRules are the guard's for a link. They belong to no attachment: others may be on that link.
func guardRules(link string) rules {
	return rules{nftables: &nftablesRules{
		table:  loopbackGuard,
		rules:  []nftablesRule{{chain: guardLinks, exprs: statement(linkMatch(link), verdict(expr.VerdictDrop, "")), comment: link}},
		chains: []string{guardLinks},
		owns:   func(comment string) bool { return comment == link },
		shared: true,
		stale:  func(comment string) bool { return randomName.MatchString(comment) && !linkExists(comment) },
	}}
}

// randomName is the form of the names that plugins give the host's ends of pairs. One that is gone does not come back, so its
// rule may be removed at any time. A bridge may come back meanwhile.
var randomName = regexp.MustCompile(`^veth[0-9a-f]{8}$`)

// linkExists tells whether there may be a link of the name. A request for each is faster than a list of all.
func linkExists(name string) bool {
	_, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	return !errors.As(err, &missing)
}

// GuardLoopback keeps what comes by the links that lead to the addresses from 127.0.0.0/8, for plugins that set route_localnet
// there. It is safe to repeat. The error is that of a kernel without nftables.
func GuardLoopback(ctx context.Context, addresses []netip.Addr) error {
	var all []rules
	for _, address := range addresses {
		if !address.Unmap().Is4() {
			continue
		}
		if link := linkTo(address.AsSlice()); link != "" {
			all = append(all, guardRules(link))
		}
	}
	if len(all) == 0 {
		return nil
	}
	socket, err := dialNFTables(ctx)
	if err != nil {
		return err
	}
	defer socket.Close() //nolint:errcheck // nothing is left to send
	return socket.commit([]*Changes{{rules: all}})
}

// routesLocalnet tells whether connections from 127.0.0.0/8 are let out to the addresses: not where the kernel has no
// nftables, and nothing guards what they let in.
func (conf *portmapConfig) routesLocalnet() bool {
	isV4 := func(address net.IPNet) bool { return isIPv4(address.IP) }
	return conf.snat() && slices.ContainsFunc(conf.addresses, isV4) && supportsNFTables()
}
