// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package pools keeps the pools of allocnet-ipam of a host: it verifies the ownership of the
// host's blocks, claims blocks before the present ones are full, releases and reclaims others,
// and reports what keeps a pool from assigning addresses.
//
// The plugin needs none of this to assign an address from a block that the host holds. Each
// step has a deadline, and no step holds a lock that attaching from such a block waits for.
package pools
