// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package policy decides which jobs may attach to a network, and with which options.
//
// Job authors select networks by name, so an operator restricts a network under the
// key "allocnet" of its conflist:
//
//	"allocnet": {"namespaces": ["prod", "team-*", "!team-x"], "staticIPs": false}
//
// and all networks of the host in DefaultFile, in the same form. A key of the network
// overrides the same key of the host, except that a pattern with "!" denies in either.
// Without rules everything is allowed except host ports that the job chooses.
//
// A namespace is the orchestrator's unit of access control. A job's name is chosen by
// its author, so "jobs" narrows what "namespaces" allows, and never widens it.
package policy
