// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package plan makes a plan from a request, or refuses it: which attachments an allocation gets, with which conflists,
// addresses, ports and tables, and in which order. It does no I/O: what it has to know of the host and of the
// records it asks of Facts. Until the plan is complete, nothing has been done or recorded.
package plan
