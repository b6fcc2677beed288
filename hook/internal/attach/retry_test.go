// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package attach

import (
	"testing"
	"time"
)

func TestDelay(t *testing.T) {
	for range 1000 {
		if d := delay(); d < time.Second || d >= 2*time.Second {
			t.Fatalf("delay %s, want 1 s to 2 s", d)
		}
	}
}
