// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package connect finds the store of this host's pools, and who this host is in it, from the
// blocks nomad and ipam of the configuration. It asks Nomad what is known of allocations and
// nodes. Without such blocks the store is this host's own.
package connect
