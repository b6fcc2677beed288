// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import "github.com/allocnet/allocnet/state"

// Reattaching is the phase of an attachment that was detached to be attached again, and is not attached yet.
// Records have Attached, so that nothing rolls the allocation back, and the former result.
const Reattaching state.Phase = "reattaching"
