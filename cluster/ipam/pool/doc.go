// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package pool is a pool of addresses as a host uses it: what gives out addresses, takes them
// back, and looks after the host's part of the pool. It is what the CNI plugin, the agent and
// the command line call.
package pool
