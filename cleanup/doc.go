// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cleanup finds and removes what CNI plugins left on a host, because DEL was never called,
// or because it failed or reported success and left it.
//
// A scan lists the objects that CNI made, with their owners as far as those can be proven. A plan,
// a pure function, decides which are leaked, and why. Removal takes many in one transaction.
// Cleaner does that for allocations whose teardown failed, Collector for the whole host.
//
// An object is proven to be an allocation's by a comment together with the hash in the name of a
// chain, by the name or the content of a file, or by the hash in the name of a device; never by an
// address alone. Where it is unknown which allocations live, nothing is removed.
//
// # The catalogue
//
// What plugins leave is data: one literal for each plugin (catalogue), with the kinds of its
// objects, patterns for chains, rules, tables, links, files and leases, and what proves the owner
// in each. Scanning, attribution and removal know patterns only. So a plugin's leaks are a
// literal, a case in catalog_test.go, which needs no root, and a row in docs/cleanup.md. For a
// plugin that tools/cni/go.mod builds, add a network to internal/sandbox and a leftover to
// e2e/cleanup_test.go, which compares with the real one. A plugin that the catalogue lacks, and
// whose DEL failed, stays pending: what it left is unknown.
//
// # Order
//
// Records are read after the scan, so that an allocation which was set up meanwhile is among them.
// One that was on record before the scan and is not after it was torn down meanwhile: what it
// seems to have left is kept for the next collection. Allocations on record are never removed by
// force alone: the engine's GC tears them down.
//
// Removal takes interfaces first, then with host-local's locks held rules, UDP flows, files and
// leases, and libcni's cached results last, because they show the owner of the rest. After a kill
// the next run finds what is left. Rules are deleted by their text, since numbers of an old
// listing lie.
package cleanup
