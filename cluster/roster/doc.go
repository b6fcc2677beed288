// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package roster tells the other hosts of a pool which attachments have its addresses on this one, in the pool's store, and learns of theirs: so
// that a rule of isolation about a job holds for its allocations on all hosts.
//
// A piece of the pool has one entry, with all attachments that have its addresses. Of what an entry says only what its author may say counts: the
// author has to have the block of the piece, as the store has it at that time. So what was said of a block is dropped when the block changes
// hands, and no host can speak for another one's addresses.
//
// What is not known to be an attachment is none, and no rule about attachments allows it anything. The other way round, an attachment that is gone is
// known until its host has said so and others have read it, usually within a second. The pool gives out no address again before its cooldown, and those that
// are free for longest first. While an agent does not run, or the store does not answer, an address that is given to another job counts as the former
// one's; after isolation.MostUnconfirmed without confirmation its job counts as unknown. Each author confirms its entries a few times in that time.
//
// Each change wakes the hosts that wait for one: they list the paths of the pool, at most once in a second, and read what has changed.
package roster
