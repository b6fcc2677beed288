// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package agent serves the engine to other programs of the host: HTTP and JSON
// on a unix socket (see agent/api), with metrics, and with a reconciler that
// takes down what ended without teardown.
//
// Nothing depends on the agent. It works on the same records and locks as the
// command line and the CNI plugin do, so that all may be used at the same time,
// and what an agent left undone the next one, or a command, finishes.
//
// # Stopping
//
// When Serve is told to stop, the agent refuses new work, lets what is at work
// come to its end, and closes the socket. A set-up that is still at work when
// Config.DrainTimeout has passed is undone.
package agent
