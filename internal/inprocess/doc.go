// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package inprocess executes CNI plugins of the reference set in this process, without their
// binaries. What it leaves on the host is what the reference plugins v1.9.1 leave: each removes what the
// other made, and their CHECK passes. It is no data plane of its own: e2e/differential compares the two.
//
// A Chain executes one verb for one network. Links, addresses and leases are made at
// once. Rules, and the removal of links, are plugin.Changes: the caller commits those of all networks of
// an allocation together, because the kernel does so in little more than the time of one.
//
// # Adding to it
//
// A plugin type is a folder, which has its configuration, add, delete and repair, and a line in the table plugins
// (plugin.go). What several share is in plugin, iface, links, rules and masquerade. A key is a field of the type's configuration.
// If a network has a key that is no field, its plugins are executed instead (Supports). A key of the reference plugin that is not
// executed in process is in otherKeys (supports.go), so that it is no mistake. Compare it with the reference plugin in e2e/differential,
// and the backends in e2e/backend_test.go. docs/executor.md lists the types, and the keys that have plugins executed.
//
// # Commit
//
// After a kill between a chain and its commit, libcni's cache has the results, and DEL removes
// what was committed. libcni deletes these results when the chain of DEL has ended, which is before the commit of DEL, so the
// engine records them first.
//
// Where allocnet stands in for plugins that are not installed any more, those may have been of a
// version that makes other rules. So forced cleanup follows such a DEL, and what CHECK finds there
// is no proof of damage.
//
// # Repair
//
// CHECK is a repair (package remedy), which may be one that only tells: each plugin compares the configuration
// and the recorded result with the kernel, notes what is missing, and makes it. Rules are the
// Changes that ADD would commit, and plugin.CommitMissing adds those that the host lacks. IPv6 addresses are
// added without a search for duplicates, which would leave the allocation without them for a second.
//
// Work in a namespace goes through package within: package ns runs it in a goroutine of its own, in which
// a panic would end the process that serves other allocations.
package inprocess
