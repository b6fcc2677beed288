// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cleanup finds and removes what CNI plugins left on a host, because
// DEL was never called, or because it failed or reported success and left it.
//
// A scan lists the objects that CNI made, with their owners as far as those can
// be proven. A plan, a pure function, decides which are leaked, and why. Removal
// takes many in one transaction. Cleaner does that for allocations whose teardown
// failed, Collector for the whole host.
//
// An object is proven to be an allocation's by a comment together with the hash
// in the name of a chain, by the name or the content of a file, or by the hash
// in the name of a device; never by an address alone. Where it is unknown which
// allocations live, nothing is removed.
package cleanup
