// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package filestore keeps the entries of pools in a directory of this host: the ipam.Store of
// a host without a cluster. Each entry is a file; processes exclude each other with a lock. A
// process that is killed at any instant leaves an entry as it was, or changed.
package filestore
