// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package forwarding finds what on a host drops packets between the allocations of its pools
// and those of other hosts: settings of the kernel, and rules of iptables, nftables and
// firewalld. Collect reads them, and Facts.Obstacles decides, without I/O. Nothing is changed.
//
// Rules are followed for a new packet, from a pool to the pool or from a network of this host alone to
// elsewhere. A condition is met, not met, met by a part of the packets, or unknown: so are sets that
// packets change, marks, and what a later version of nft or iptables has. Between hosts, what only such a
// rule may accept is a warning. Elsewhere it is nothing: an operator's firewall that lets packets through in a
// way that is not understood is not to be opened further.
package forwarding
