// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package block leases blocks of a pool to this host: it claims them in the store, keeps a
// record of each on disk, verifies that the store still has them, and gives them back. Overview
// (open.go) says which of them are open, so that package local may give out their addresses.
//
// Each change of the store is made in three steps: the record says what is intended, the
// request is made, and the record says what came of it. A process that is killed in between,
// or never gets an answer, leaves the intent, and the next process resolves it. A request may
// take effect long after that, so what comes late is recognized by its claim ID and removed.
//
// # Files
//
// blocks.json has the records, which the ledger keeps. It is changed by a process that holds store.lock, under the
// lease lock of the pool, and read under the lease lock by those that give out addresses.
// view.json has what this host saw of other hosts' blocks; it belongs to the holder of
// store.lock. endpoint.json says where other hosts reach this one. It is written under
// store.lock, and each process that claims a block writes it to the block's entry. node.json has
// what this host wrote to its own entry below nodes/, and is common to all pools.
//
// # This boot
//
// present.json and a copy of node.json are in a directory that a boot empties. Records whose
// generation is not that of present.json were restored from a backup, or are of another boot:
// nothing of them is given out before they were compared with the store.
//
// A block gives out addresses only if this machine has written its entry in this boot, and has not
// found it otherwise since: it has claimed the block, or has written the entry again. A request that
// an earlier process has sent to delete it, and that arrives late, is for the entry with the index of
// before, and has no effect.
//
// # Clones
//
// A machine whose disk was copied has the instance of the original, and what is the instance's
// would be given out by both. So a machine writes a nonce to the instance's entry below nodes/
// when it first uses the store in a boot, and one that finds a nonce that it did not write is not
// alone. Blocks that it has had since before its boot are closed until its nonce has been there
// for 40 s and was not opposed. The original, which verifies at least every 10 s, finds the nonce
// of the copy meanwhile, and insists: it writes its own again, and the copy is refused. If it
// cannot know that it is in time, both are refused, also in a store that is restored to what it was
// before: each of them writes that there are two until an operator has removed the entry. Blocks that a machine claims in its boot are
// open at once: no copy has them. They are left alone by the original for good, because the copy
// may have addresses of them when it is refused.
//
// A virtual machine that is copied with its memory is in the same boot, and has the same nonce. So
// agents write a new nonce every 40 s, and others when they verify, once in an hour: the
// second of the two finds one that it did not write, and both are refused. Until then both
// give out addresses of the same blocks. A block that one of them gives back, or has no record of, the other one may be
// using. So it is marked first, which ends that addresses of it are given out, then a new nonce is written, and the
// entry is deleted 40 s later: a machine that was copied before the mark has found the nonce, and one that was copied
// after it gives out no address of the block either.
//
// In the boot in which the instance was made, a machine without an agent needs no entry until it
// finds one, or has used the store for an hour. A machine that finds a block of its instance that it has not claimed
// writes its nonce, too, and does not touch the block for a while.
//
// For 40 s after it has registered in a boot, a machine does not change where blocks are reached
// that it has had since an earlier boot: a copy would draw the traffic of the original.
//
// # Nodes that are gone
//
// Nomad forgets a node when an operator says so, also one that lives. So what a host had is
// reclaimed only if its entry below nodes/ has not changed for its fence and two hours, by the
// uptime of the host that reclaims: the other one gives out no address any more.
//
// # What is not prevented
//
// A copy of a machine's disk that boots while the original cannot reach the store, or has no agent
// and attaches nothing, is not opposed. Nor is the copy with the memory, until a nonce is renewed.
//
// A block that was claimed after a snapshot is not in the store when that snapshot is
// restored. Its owner creates it again when it verifies, which agents do at least every 10 s,
// and hosts that saw the block owned do not claim it for a while. A host that never saw it, or
// an owner that is cut from the store at that time, is not protected: the owner finds its
// block owned by another, closes it and reports it. It stays closed when a further restore makes it
// the owner again: the other one may have addresses of it.
package block
