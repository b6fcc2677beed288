// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package state keeps the record of every attachment, so that a teardown finds
// what a setup did, whatever died in between.
//
// # Layout
//
//	<dir>/allocations/<id>/allocation.json
//	<dir>/allocations/<id>/attachment-<interface>.json
//	<dir>/locks/<id>
//	<dir>/damaged/<id>/<file>
//	<dir>/ports (a lock)
//
// Each file holds one record with its version and the SHA-256 of its bytes. It
// is written under a temporary name and renamed, so that a reader, or whoever
// comes after kill -9, sees the old record or the new one and nothing between.
// Begin and Mark stop there; Sync and Put also sync file and directory, for
// what has to outlast a power cut. What cannot be read is set aside in damaged/
// and reported; it is never dropped.
//
// An operation touches its allocation's own directory only: the number of
// other allocations does not matter to it.
//
// # Locks
//
// Writing needs the allocation's lock, which Store.Lock takes within the
// process and, by flock, between processes. Reading needs none.
package state
