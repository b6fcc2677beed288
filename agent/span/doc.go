// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package span connects the allocations of this host with those of other hosts: for each pool
// of allocnet-ipam whose mode is not flat, it says in the store where this host is reached, and
// keeps the kernel's routes to the blocks of other hosts.
//
// What other hosts say in the store is not trusted: an address has to be one that Nomad has of
// the node, or one of configured networks. If the store or Nomad does not answer, and when the
// agent ends, the kernel's tables stay as they are.
package span
