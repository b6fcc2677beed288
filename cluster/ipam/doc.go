// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ipam has what all parts of allocnet-ipam share: the configuration of a pool, the blocks
// that its ranges are divided into, the contents of the store's entries, and the interface of a
// store. It does no I/O.
//
// A pool is a set of addresses that is unique in a cluster. A host claims blocks of it in the
// store, and gives out the addresses of its blocks without the store. Each address is governed by
// exactly one entry of the store: that of its block, or its own if it is reserved.
//
// # Networks that span hosts
//
// An attachment of a pool whose mode is not flat has an address with the length of the pool's
// subnet, and the pool's gateway, which every host has on its bridge or its ends of ptp's pairs.
// Its result has routes for the subnet via this gateway (Config.GatewayRoutes), so that it sends
// to the host what is for other hosts. IPv6 lacks the prefix around the gateway, because it
// refuses gateways that are behind a gateway.
//
// An address of one host (/32, /128) would not do: ptp deletes the kernel's route for the prefix
// and fails if there is none, a bridge has no route to its ports then, and ipMasq, which spares
// the prefix of the address only, would masquerade inside the pool. Proxy ARP would need no
// routes, but has no counterpart for a prefix of IPv6. A test in e2e/ipam holds the reference
// plugins and those in process to this.
package ipam
