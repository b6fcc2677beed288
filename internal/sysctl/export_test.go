// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl

// IsPlain is isPlain.
var IsPlain = isPlain

// ArePlain is arePlain.
var ArePlain = arePlain

// IsPlainByTable is isPlain by the table of mounts, whatever the kernel has.
var IsPlainByTable = mounts.isPlainByTable
