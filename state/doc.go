// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package state keeps the records of allocations and their attachments, so that a teardown works
// after a crash of the program or the host. It knows neither networks nor plugins.
//
// # Layout
//
//	<dir>/allocations/<id>/journal
//	<dir>/locks/<id>
//	<dir>/pending/<id>
//	<dir>/damaged/<id>/<file>
//	<dir>/ports/<id>
//	<dir>/leases/<id>
//	<dir>/bridges (a lock)
//	<dir>/boot
//	<dir>/isolation/in-force
//	<dir>/isolation/prepared, text (what spares reading the rules)
//	<dir>/isolation/learned-<pool>
//	<dir>/isolation/learning
//
// A journal has one line of JSON for each change of the allocation, of attachments, of the phase
// of attachments whose removal begins on a full disk, or of an interface whose attachment is
// forgotten, with the version of the format and the SHA-256 of both. The last line of the
// allocation, and of each interface, counts. Lines are only appended, each change in one write; a
// journal gets its name when its first lines are in it. Attachments that change together have one
// line, so all of them change or none. After kill -9 the last line may be incomplete: the lock
// file, which then still exists, shows that it was being written, and the next Lock removes it. A
// line that lacks nothing but its newline is kept.
//
// The first line begins with the size of the journal, which Unlock writes: a file that something else has made shorter is
// damaged, and tells of no set-up that was interrupted. An earlier program reads such a line, and leaves the size as it is.
//
// Begin, Write and Delete return after the write; Sync and WriteDurable also sync the journal and
// its directories, for changes that have to outlast a power cut. The intent is synced while
// plugins run: of their work only leases on disk outlast a power cut. The outcome is not: after
// one it describes nothing that exists. A synced record is never replaced by one that is not
// synced, which could be empty then (XFS): a journal much larger than its live lines is rewritten
// under another name, synced, and renamed.
//
// Each write reserves room behind it, so that a full disk keeps no attachment from being
// forgotten. Inodes are not reserved: without a free one the lock file cannot be made, and what
// needs the lock fails and changes nothing.
//
// A line that cannot be read is damage, and so is one that lacks the mode of the allocation or the
// batch of an attachment. Every reader reports damage and leaves it where it is. Repair rewrites
// the record and keeps the damaged file in damaged/. The readable lines count, but the damaged
// ones are unknown: such an allocation is not dead because its record looks incomplete.
//
// A record names programs to execute, so a directory that others than root can write to is
// refused. An operation touches its allocation's own directory only: the number of other
// allocations does not matter to it.
//
// # Locks
//
// Writing needs the allocation's lock, which Store.Lock takes within the process and, by flock,
// between processes. Reading needs none.
package state
