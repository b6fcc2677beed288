// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package texts

import (
	"fmt"
	"testing"
	"time"
)

// TestTexts: items are in their order, no item is no text, and one thing alone has no plural.
func TestTexts(t *testing.T) {
	items := []time.Duration{time.Minute, time.Second}
	got := fmt.Sprintf("%q %q %q %q, %s, %s, %s", Of(items), Join(items, ", "), Of(items[:0]), Join(items[:0], ", "), Counted(0, "port"), Counted(1, "port"), Counted(2, "port"))
	if want := `["1m0s" "1s"] "1m0s, 1s" [] "", 0 ports, 1 port, 2 ports`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
