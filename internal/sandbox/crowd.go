// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import "testing"

// Crowd returns how many allocations a test starts at once: all, or a fifth of them with -short. What goes wrong only
// between many is the same, and later, with more of them.
func Crowd(all int) int {
	if testing.Short() {
		return all / 5
	}
	return all
}
