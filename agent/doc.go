// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package agent serves the engine to other programs of the host: HTTP and JSON on a unix socket
// (see agent/api), with metrics, and with a reconciler that garbage-collects dead allocations.
//
// Nothing depends on the agent. It uses the same records and locks as the command line and the CNI
// plugin, which work at the same time. Work that an agent leaves incomplete is completed or undone
// by the next agent or command. A CNI call by the agent runs what allocnet-cni runs, so the result is the
// same with and without the agent.
//
// # Garbage collection
//
// The reconciler tears down a recorded allocation if its network namespace is gone and Nomad does
// not report it as live. If Nomad does not answer, nothing is removed. A namespace alone does not
// keep an allocation of which Nomad says that it has ended: a client that is killed while it stops
// allocations restores them as terminal, skips the hook that knows their networks, and never calls
// DEL. As a client that runs is about to do it itself, the reconciler waits for an interval in
// which no process is in the namespace.
//
// # Limits
//
// Requests in flight are bounded; the excess gets "try again later". A connection serves one
// request, because idle ones would count against their limit.
//
// # Stopping
//
// When the context of Serve ends, the agent refuses new work, completes the requests in flight,
// and closes the socket. A set-up that is still in flight after Config.DrainTimeout is undone. A
// CNI call of an agent that is killed leaves what one of allocnet-cni leaves that is killed: its caller
// does the work itself, or undoes it.
//
// # Adding to it
//
// A metric is in metrics.go, or in collector.go if it is read from the host when Prometheus asks.
// What the engine has to report for it is a method of hook.Observer. dashboard_test.go lists all
// metrics: show it in dist/grafana/allocnet.json and describe it in docs/agent.md. An alert is a
// rule in dist/prometheus, with a test that makes it fire in e2e/agent/testdata/alerts.test.yaml.
//
// A field of an answer is in agent/api and in openapi.json. Allocations and their details go out as the engine
// has them (package allocation), others are filled in the file of their subject, such as pool.go. Tests hold the
// types of the API to those of the engine (wire_test.go) and to openapi.json (description_test.go).
package agent
