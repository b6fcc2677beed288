// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package hook sets up, checks and tears down the network attachments of an
// allocation. It is the one engine behind every way in: the command line, the
// CNI plugin, the Nomad driver and the agent.
//
// # Order of things
//
// Setup is all or nothing. It writes down what it is about to do, runs the CNI
// plugins, and writes down what came of it; a failure undoes everything before
// Setup returns. Teardown works from what was written down, never from the
// conf directory as it is today. A process killed between any two steps leaves
// a record from which the next Setup or Teardown of the allocation finishes
// the work.
//
// Extend and Detach add single networks to an allocation that stands and take
// them away again, in the same way: what was cut off is undone by the next
// call, and the rest of the allocation is not touched.
//
// # Concurrency
//
// All methods may be called concurrently and from several processes. The state
// store locks one allocation at a time, so allocations never wait for each
// other. Within an allocation independent attachments run at the same time.
package hook
