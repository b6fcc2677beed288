// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package hook sets up, checks and tears down the network attachments of an allocation. It is the
// engine of the command line, the CNI plugin, the Nomad driver and the agent.
//
// # Crash safety
//
// Setup attaches all networks or none. It records each attachment before ADD and completes the
// record after it; a failure rolls back everything before Setup returns. Teardown works from the
// record, never from the CNI configuration directory of today. A process killed between any two
// steps leaves a record from which the next Setup or Teardown of the allocation finishes the work.
//
// Extend and Detach add single networks to an existing allocation and remove them in the same way:
// the next call rolls an interrupted one back, and does not touch the other attachments. Only the
// batch of Setup decides whether an allocation is set up.
//
// A plan comes before everything: until it is complete no plugin has run, and nothing is recorded.
// A failure of one attachment lets the calls in flight end, because a killed plugin leaves more to
// remove. Of an attachment whose ADD has not begun only the record is deleted: DEL could remove an
// interface that another program has made under its name. After an ADD that failed DEL runs, as
// CNI requires.
//
// Between the end of all chains and the record of phase attached, only libcni's cache has all
// results. That DEL begins is on record for all attachments of a call in one step, before the
// first DEL, so what a killed removal leaves does not count as a whole batch.
//
// # Teardown
//
// DEL gets the conflist, arguments, capabilities and result of ADD. Where the record is lost, they
// come from libcni's cache: the conflist has a marker that tells our attachments there from those
// of other runtimes. Damage is unknown, never dead. Explicit teardowns work from what is readable;
// GC needs proof that the namespace is gone.
//
// Without the namespace, plugins report success and leave their rules. So forced cleanup (Cleaner)
// gets all attachments then, and else those whose DEL failed. What it cannot remove stays on
// record as pending. Only a caller that no other one waits for retries it (RetryPending): a plugin
// that hangs keeps it for minutes.
//
// # Repair
//
// What an attachment has to have is what its record says. The namespace is never asked which links
// of the host belong to it: a task with CAP_NET_ADMIN could answer. Check, Verify and
// RepairAttachments compare in the same way. An attachment that is attached again stays attached
// on record, with its former result beside the new one: so neither GC nor another call rolls the
// allocation back, and the process that finds it repeats DEL and ADD.
//
// Verify is for runtimes that delete the namespace after a failed CHECK. It waits for no lock, and
// fails only for damage that is seen twice and that no repair makes good. It neither reads nor
// writes libcni's cache, which the holder of the lock may be writing.
//
// # Is it well
//
// Six methods tell, because their callers differ in what may be locked, executed and changed. Check is for people: it waits for
// the lock, asks all plugins and changes nothing on the host. Verify is Check for runtimes. Inspect and Current look into the namespace
// alone, without lock and plugins, for those who list a host. RepairAttachments compares what Check compares, and repairs it;
// CheckUnknown asks, ahead of it, the plugins that may take long. RepairRecord is about the record, not about networks.
//
// # Parts
//
// Here is a line for each verb, and the names of what callers give and get. What verbs do is in hook/internal: check is above
// repair, that above attach, that above remove, and all work with an operation, which is one call on one locked allocation.
//
// # Concurrency
//
// All methods may be called concurrently and from several processes. The state store locks one
// allocation at a time, so allocations never wait for each other. Within an allocation,
// independent attachments are attached at the same time.
//
// # Integrations
//
// An integration is a folder with the runtime's name: it translates an event of the runtime to a
// Request (example_test.go shows how to embed an Engine) and the Allocation back, and maps errors
// by their kind (internal/errdefs). Request.Operator says whether an operator asks, because policy
// depends on it. Where the runtime keeps a process nomad/driver is the model, where it executes
// one cmd/allocnet-cni. If it can list its containers, it gives GC the live set as nomad/live.go
// does. Its packages are limited to the folder in .golangci.yml, and e2e/chaos kills it.
package hook
