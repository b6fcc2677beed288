// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package forwarding finds what on a host drops packets between the allocations of its pools
// and those of other hosts: settings of the kernel, and rules of iptables, nftables and
// firewalld. Collect reads them, and Facts.Obstacles decides, without I/O. Nothing is changed.
//
// Rules are followed for the first packet of a connection: of one within a pool, or of one from a network that only this host has
// to elsewhere (outward.go). What most rules consist of is understood: names of interfaces, prefixes, states of connections, verdicts and chains.
// A rule with anything else, such as a named set, a map or a mark, may match or not. If only such a rule may accept a packet
// between hosts, that is a warning. If only such a rule may accept one to elsewhere, nothing is reported, so that no operator is
// told to open a firewall further which may let the packet through already.
package forwarding
