// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package hook sets up, checks and tears down the network attachments of an
// allocation. It is the engine of the command line, the CNI plugin, the Nomad driver
// and the agent.
//
// # Crash safety
//
// Setup attaches all networks or none. It records each attachment before ADD and
// completes the record after it; a failure rolls back everything before Setup returns.
// Teardown works from the record, never from the CNI configuration directory of today.
// A process killed between any two steps leaves a record from which the next Setup or
// Teardown of the allocation finishes the work.
//
// Extend and Detach add single networks to an existing allocation and remove them in
// the same way: the next call rolls an interrupted one back, and does not touch the
// other attachments.
//
// # Concurrency
//
// All methods may be called concurrently and from several processes. The state store
// locks one allocation at a time, so allocations never wait for each other. Within an
// allocation, independent attachments are attached at the same time.
package hook
