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
// store.lock. node.json has what this host wrote to its own entry below nodes/, and is common
// to all pools.
//
// # What is not prevented
//
// A block that was claimed after a snapshot is not in the store when that snapshot is
// restored. Its owner creates it again when it verifies, which agents do at least every 10 s,
// and hosts that saw the block owned do not claim it for a while. A host that never saw it, or
// an owner that is cut from the store at that time, is not protected: the owner finds its
// block owned by another, closes it and reports it.
package block
