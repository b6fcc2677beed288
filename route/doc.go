// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package route keeps the routes of this host to the blocks of other hosts, with the neighbours,
// the forwarding databases and the VXLAN devices that they need.
//
// Ours are the routes with the number Protocol, the devices with the alias of a pool, and the tables of
// nftables with a prefix and the name of such a device, which keep others out of it. Nothing else of
// the host is changed: what is in the way is reported.
package route
