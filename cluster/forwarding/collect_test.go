// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import "testing"

// TestIsStrict: the setting of all interfaces counts, too, and the loose one wins.
func TestIsStrict(t *testing.T) {
	for values, want := range map[[2]string]bool{{"0", "1"}: true, {"1", "0"}: true, {"1", "1"}: true, {"2", "1"}: false, {"1", "2"}: false, {"0", "0"}: false, {"", ""}: false} {
		if got := isStrict(values[0], values[1]); got != want {
			t.Errorf("%q for all, %q for the interface: %t, want %t", values[0], values[1], got, want)
		}
	}
}
