// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl

// IsPlain is isPlain.
var IsPlain = isPlain
