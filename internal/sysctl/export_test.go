// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl

import "sync"

// IsPlain is isPlain.
var IsPlain = isPlain

// StartAgain has the process look at its mounts again, as one that starts now.
func StartAgain() { plain = sync.OnceValue(isPlainHere) }
