// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package agent serves the engine to other programs of the host: HTTP and JSON
// on a unix socket (see agent/api), with metrics, and with a reconciler that
// garbage-collects dead allocations.
//
// Nothing depends on the agent. It uses the same records and locks as the command
// line and the CNI plugin, which work at the same time. Work that an agent leaves
// incomplete is completed or undone by the next agent or command.
//
// # Stopping
//
// When the context of Serve ends, the agent refuses new work, completes the requests
// in flight, and closes the socket. A set-up that is still in flight after
// Config.DrainTimeout is undone.
package agent
