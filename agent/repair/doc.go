// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package repair keeps the attachments of a host as they were set up: it has the engine compare
// them with what is there when the kernel tells that something was removed, and at an interval
// for what it does not tell.
package repair
