// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import "github.com/allocnet/allocnet/nomad"

// The first versions that behave so, in addition to those of package nomad.
var (
	// ignoreUnknown: the client passes IgnoreUnknown, and the rules of a transparent proxy
	// (v1.8.0 networking_cni.go:158-184).
	ignoreUnknown = nomad.Version{1, 8, 0}
	// argumentsReplace: a change of the CNI arguments replaces the allocations (v1.8.3
	// scheduler/util.go:490). 1.8.2 keeps them.
	argumentsReplace = nomad.Version{1, 8, 3}
	// bothFamilies: of an interface with IPv4 and IPv6 addresses the first of each is kept (v1.9.0
	// networking_cni.go:441-530).
	bothFamilies = nomad.Version{1, 9, 0}
	// CheckOnRestart: a client that restarts calls CHECK, and go-cni STATUS (v1.9.5
	// network_hook.go:160-168, networking_cni.go:592,702).
	CheckOnRestart = nomad.Version{1, 9, 5}
	// ConnectOnCNI: a group in the mode cni/NAME can be in the service mesh, an interface can have
	// IPv6 addresses alone, and a restart of the client restores what tasks are told of their
	// network (v1.11.0).
	ConnectOnCNI = nomad.Version{1, 11, 0}
)

// Versions are the first of those that differ in what their client calls.
func Versions() []nomad.Version {
	return []nomad.Version{nomad.JobArguments, nomad.Identity, CheckOnRestart, ConnectOnCNI}
}

// Real is the version of Nomad that the tests run.
var Real = nomad.Version{1, 6, 2}
