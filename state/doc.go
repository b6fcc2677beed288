// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package state keeps the record of every attachment, so that a teardown finds
// what a setup did, whatever died in between.
//
// # Layout
//
//	<dir>/allocations/<id>/journal
//	<dir>/locks/<id>
//	<dir>/pending/<id>
//	<dir>/damaged/<id>/<file>
//	<dir>/ports/<id>
//	<dir>/bridges (a lock)
//	<dir>/bridges (a lock)
//	<dir>/boot
//
// A journal has a line of JSON for each change: the allocation, an attachment, or
// an interface whose attachment is forgotten, with the format's version and the
// SHA-256 of both. The last line of an allocation, and of each interface,
// counts. Lines are only appended, each change in one write; a journal gets its
// name when its first lines are in it. After kill -9 the last line may lack its
// end: the lock file, which is still there, tells that it was being written, and
// the next Lock removes it. A line that lacks nothing but its newline is kept.
//
// Begin, Mark and Delete stop at the write; Sync and Put also sync the journal and
// its directories, for what has to outlast a power cut. No synced record is ever
// replaced by one that is not: a journal that has grown well beyond its live
// content is written anew under another name, synced, and renamed. Each write
// reserves room behind it, so that a full disk keeps no attachment from being
// forgotten.
//
// What cannot be read is damage. It is reported by every reader, and left where it
// is until Repair writes the record anew and keeps the damaged one in damaged/.
// The rest of the record counts, but what the damage says is unknown: such an
// allocation is not dead because its record looks unfinished.
//
// An operation touches its allocation's own directory only: the number of
// other allocations does not matter to it.
//
// # Locks
//
// Writing needs the allocation's lock, which Store.Lock takes within the
// process and, by flock, between processes. Reading needs none.
package state
