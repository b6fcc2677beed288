// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package inspect compares an attachment with its record: what is damaged, what only a task can have done, and what keeps
// anyone from telling. It changes nothing, and looks at what its callers have listed. Check, Verify, Inspect and repairs compare by it.
package inspect
