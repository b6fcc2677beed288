// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package packetfilter has a host let packets of pools through whose networks span hosts: by a
// chain of its own in the iptables that the host uses, by sources of a zone of firewalld, and by
// the settings of the kernel that enable forwarding.
//
// A rule accepts what is from and to one subnet of a pool, and comes from an interface of the
// pool. The interface that a packet leaves by says nothing of who has sent it. As the plugin ptp
// makes a pair of interfaces for each attachment, those are also all whose names begin with veth:
// to list them would drop the first packets of each attachment.
//
// Ours are the chain, the rules that lead to it, and the sources on record. Nothing else of the
// host is changed, except that forwarding which was enabled stays so, as after an attachment. What
// else drops packets is not overridden: an accept in one base chain of nftables does not keep
// another one from dropping. firewalld is told by its own means. A policy of its own could accept
// less than the zone trusted, but firewalld knows it only after a reload, which drops what other
// programs have told it.
//
// A chain is made in each kind of iptables whose table filter exists: to make a legacy table on a
// host that has none would slow all packets.
package packetfilter
