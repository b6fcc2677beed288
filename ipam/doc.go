// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ipam has what all parts of allocnet-ipam share: the configuration of a pool, the
// blocks that its ranges are divided into, the contents of the store's entries, and the
// interface of a store. It does no I/O.
//
// A pool is a set of addresses that is unique in a cluster. A host claims blocks of it in the
// store, and gives out the addresses of its blocks without the store. Each address is governed
// by exactly one entry of the store: that of its block, or its own if it is reserved.
package ipam
