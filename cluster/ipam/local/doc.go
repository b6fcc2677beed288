// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package local has the leases of a pool's addresses on this host, and the history of the
// addresses of its blocks: which was freed when. It knows neither the store nor how blocks come
// to the host.
//
// Leases are host-local's files, under host-local's lock. The history of a block is a file with
// a time for each of its addresses, see history. An address is marked as in use before it gets
// a lease, and as freed before it loses it, so that a process that is killed in between leaves
// an address that nothing has, and never one that two may get. An address that is marked as in
// use and has no lease was freed by another program, or by a process that was killed: its
// cooldown begins when that is seen.
package local
