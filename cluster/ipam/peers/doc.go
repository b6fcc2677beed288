// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package peers follows which hosts have the blocks of a pool, and where these hosts are reached:
// what a host needs to route to the others.
//
// The contents of the store were written by other hosts, and are not trusted: what cannot be a
// block of the pool is returned in a list of its own, with the reason. Whether an address is that of a node, and
// whether a route to it is safe, is for others to decide.
//
// Reads may be old, because nothing is written to the store that depends on them.
package peers
