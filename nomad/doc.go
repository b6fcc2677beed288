// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomad reads from Nomad's API which allocations are live on this host and
// which networks a job selects, and publishes the host's networks as node
// metadata.
//
// The token needs, with ACLs on:
//
//	namespace "*" { capabilities = ["read-job"] }
//	node { policy = "write" }  # "read" if no metadata is published
//	agent { policy = "read" }  # not needed if node_id is configured
package nomad
