// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomadstore keeps the entries of pools as variables of Nomad: the ipam.Store of a
// cluster.
package nomadstore
