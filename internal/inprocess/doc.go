// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package inprocess executes CNI plugins of the reference set in this process, without
// their binaries. What it leaves on the host is what the reference plugins v1.9.1 leave:
// an attachment that one made can be checked and removed by the other.
//
// A Chain executes one verb for one network. Links, addresses and leases are made and
// checked at once. Rules, and the removal of links, are Changes: the caller commits those of all
// networks of an allocation together, because the kernel does so in little more than the
// time of one.
package inprocess
