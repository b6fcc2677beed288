// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package policy decides who may attach what.
//
// Job authors name networks, so an operator says per network who may have it,
// under the key "allocnet" of its conflist:
//
//	"allocnet": {"namespaces": ["prod", "team-*", "!team-x"], "staticIPs": false}
//
// and for all networks of the host in DefaultFile, in the same form. What a
// network says comes before what the host says, key by key, except that a
// pattern with "!" denies wherever it stands. Without any rule all is
// allowed, except ports of the host that the job chooses.
//
// A namespace is what an orchestrator separates people by. The name of a job
// is its author's own choice, so "jobs" narrows what "namespaces" allows, and
// never widens it.
package policy
