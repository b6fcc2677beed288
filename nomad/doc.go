// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomad asks Nomad's API: which allocations live on this host, which
// networks a job asks for besides its first, and tells it which networks the
// host has.
//
// The token needs, with ACLs on:
//
//	namespace "*" { capabilities = ["read-job"] }
//	node { policy = "write" }  # "read" where no metadata is published
//	agent { policy = "read" }  # not needed where the node ID is configured
package nomad
