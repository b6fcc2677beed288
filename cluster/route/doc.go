// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package route keeps the routes of this host to the blocks of other hosts, with the neighbours,
// the forwarding databases and the VXLAN devices that they need.
//
// Ours are the routes with the number Protocol, the devices with the alias of a pool, and for each
// such device a table of nftables with a prefix and its name, which drops packets of the VXLAN that
// are not of its hosts (guard.go).
// Nothing else of the host is changed: what is in the way is reported.
//
// What the kernel should have is a pure function of the targets and of what it has (pick.go,
// plan.go). Apply lists, compares and makes the difference, so what is right is never touched, and
// what a kill leaves leads to the same end. There is no state but the kernel's, except a record
// for each pool, which is written before anything is made. A fake kernel in memory holds that to
// random states and kills; e2e/route does so with the real one.
//
// # What is trusted
//
// The MAC of a device is derived from its host's address and the pool: what the store says of it
// tells only that there is a device. So a variable with the address of another host takes nothing
// from that, and a machine that replaces another one has the MAC that is known. The address of
// another node that lies in the pool keeps only that route away; a pool with an address that this
// host needs gets no routes at all.
//
// # Order of changes
//
// A route of others for the same prefix wins, whatever its metric. As the kernel would replace any
// route, new ones are added exclusively, and a changed next hop is appended before the old one is
// removed: the route is never missing, and one of others that comes in between is not replaced.
// Only where the next hop stays and the source of an IPv6 route changes, the kernel has no other
// way than to replace.
//
// Each subnet has a route unreachable that is worse than all others: packets for blocks without a
// host must not leave by the default route. Behind the VXLAN device nothing is flooded or learned,
// and a node has one neighbour for each family and one forwarding entry, however many blocks it
// has.
//
// # Packets of the host itself
//
// A host's own packets to allocations behind VXLAN have its address on the underlay, since the
// kernel would choose the pool's gateway, which all hosts have. The answers come by the underlay,
// whose interface must not filter strictly (rp_filter 1), and the device of the other host has
// rp_filter 2 and an IPv4 address, because the kernel is strict with a device that has none.
package route
