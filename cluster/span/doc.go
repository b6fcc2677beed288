// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package span connects the allocations of this host with those of other hosts: for each pool of
// allocnet-ipam whose mode is not flat, it says in the store where this host is reached, and keeps
// the kernel's routes to the blocks of other hosts.
//
// What other hosts say in the store is not trusted: an address has to be one that Nomad has of the
// node, or one of configured networks. If the store or Nomad does not answer, and when the agent
// ends, the kernel's tables stay as they are. After a restart nothing is applied before it is
// known of each block whether it is accepted: the route of an earlier agent could be one that is
// not yet.
//
// A pool has a runner with two loops. One waits for the store. The other one compares with the kernel:
// after the store has something new, after events of the kernel, and at an interval. Only one pool is
// compared at a time. So an answer of the store that has nothing new, as when Nomad ends a wait because a
// variable of another pool has changed, leads to no comparison, which would delay the other pools.
//
// Nomad is asked about single nodes, and for the list only where many are new: to read the list
// each minute would be 10 MB for each host in a cluster of 5,000. What was accepted stays while
// its variable does not change, because Nomad forgets a node that is gone before its blocks are
// reclaimed.
//
// Routes of a pool without a network stay while a namespace of the host has an address of it. Ours
// are told apart by the subnets of their pools, so of two pools that overlap one gets none.
//
// The agent holds a file lock on the records of the routes, which cluster leave takes. To ask the
// agent's socket would start the agent under systemd, and a lock of the network namespace, such as
// an abstract socket, could be taken by any user.
package span
