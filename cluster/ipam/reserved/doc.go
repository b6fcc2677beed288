// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package reserved has the addresses of a pool that are governed one by one: those that jobs
// request, and the sticky ones, which are kept for a key.
//
// Each has one entry in the store, which says for whom the address is held or kept. A host
// that holds one has a record of it on disk, which it writes before it asks the store, so
// that the next process knows what a killed one may have done:
//
//	taking     the store was asked for the address: the outcome is unknown
//	held       an attachment of this host has it
//	releasing  it is to be given back
//	lost       the store says that another host has it, though an attachment here does
//
// Nothing is ever overwritten but on the condition that it is as it was read, so a late
// request of a killed process does no harm. Only a late Create may still succeed, after the
// entry was removed: it makes an entry of this host without a record, which Verify gives
// back.
package reserved
