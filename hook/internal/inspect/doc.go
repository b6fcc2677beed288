// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package inspect compares an attachment with its record, for Check, Verify, Inspect and repairs. It tells whether the
// attachment is damaged, whether only a task of the allocation can have done that, or why neither can be known. It changes
// nothing, and its callers list the interfaces and routes that it compares.
package inspect
