// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package packetfilter has a host let packets of pools through whose networks span hosts: by a chain of
// its own in the iptables that the host uses, by sources of a zone of firewalld, and by the settings of
// the kernel that enable forwarding.
//
// A rule accepts what is from and to one subnet of a pool, and comes from an interface of the pool. As the plugin ptp
// makes a pair of interfaces for each attachment, those are also all whose names begin with veth.
// Ours are the chain, the rules that lead to it, and the sources on record. Nothing else of the host
// is changed, except that forwarding which was enabled stays so, as after an attachment. What else
// drops packets is not overridden: rules of nftables cannot accept what other chains drop.
package packetfilter
