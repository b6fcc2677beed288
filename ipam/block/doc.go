// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package block leases blocks of a pool to this host: it claims them in the store, keeps a
// record of each on disk, verifies that the store still has them, and gives them back.
//
// Each change of the store is made in three steps: the record says what is intended, the
// request is made, and the record says what came of it. A process that is killed in between,
// or never gets an answer, leaves the intent, and the next process resolves it. A request may
// take effect long after that, so what comes late is recognized by its claim ID and removed.
//
// # Files
//
// blocks.json has the records. It is changed by a process that holds store.lock, under the
// lease lock of the pool, and read under the lease lock by those that give out addresses.
// view.json has what this host saw of other hosts' blocks; it belongs to the holder of
// store.lock. endpoint.json says where other hosts reach this one. It is written under
// store.lock, and each process that claims a block writes it to the block's entry. node.json has
// what this host wrote to its own entry below nodes/, and is common to all pools.
//
// # Clones
//
// A machine whose disk was copied has the instance of the original, and what is the instance's
// would be given out by both. So a machine writes a nonce to the instance's entry below nodes/
// when it first uses the store in a boot, and one that finds a nonce that it did not write
// objects, or is refused. In the boot in which the instance was made, a machine needs no entry
// until it finds one: a copy starts in another boot and writes its own, and the original
// objects when it verifies. So 50 new hosts make 50 writes, and not 100. A machine that finds a
// block of its instance that it has not claimed writes its nonce, too, and does not touch the
// block for a while: a virtual machine may have been copied with its memory, before its first
// claim.
//
// For the same while after each nonce that it has written, a machine does not change where
// blocks are reached that it has had since an earlier boot: a copy would draw the traffic of the
// original. Blocks that it has claimed in this boot are no copy's.
//
// # What is not prevented
//
// A virtual machine that is copied with its memory, after it has claimed, is in the same boot,
// and knows the same nonce. Neither is detected.
//
// A block that was claimed after a snapshot is not in the store when that snapshot is
// restored. Its owner creates it again when it verifies, which agents do at least every 10 s,
// and hosts that saw the block owned do not claim it for a while. A host that never saw it, or
// an owner that is cut from the store at that time, is not protected: the owner finds its
// block owned by another, closes it and reports it.
package block
