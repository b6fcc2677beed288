// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package forwarding finds what on a host drops packets between the allocations of its pools
// and those of other hosts: settings of the kernel, and rules of iptables, nftables and
// firewalld. Collect reads them, and Facts.Obstacles decides, without I/O. Nothing is changed.
//
// Rules are followed for a new packet from the pool to the pool. A rule that looks at anything
// but source and destination counts as one that does not match. If one for the interfaces of the
// pool may accept the packet, what drops it later is a warning.
package forwarding
