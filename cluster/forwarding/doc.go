// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package forwarding finds what on a host drops packets between the allocations of its pools
// and those of other hosts: settings of the kernel, and rules of iptables, nftables and
// firewalld. Collect reads them, and Facts.Obstacles decides, without I/O. Nothing is changed.
//
// Rules are followed for a new packet, from a pool to the pool or from a network of this host alone to elsewhere. Only what is
// common is understood: names of interfaces, prefixes, states of connections, verdicts and chains. Anything else may match: so
// named sets, maps and marks. Between hosts, what only such a rule may accept is a warning. Elsewhere it is nothing: an
// operator's firewall that may let packets through is not to be opened further.
package forwarding
