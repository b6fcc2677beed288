// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"testing"
	"time"
)

// TestLockPorts: a call that chooses a port excludes all others, and those that
// choose none do not exclude each other.
func TestLockPorts(t *testing.T) {
	for name, test := range map[string]struct{ first, second, excluded bool }{
		"both choose":       {true, true, true},
		"the first chooses": {true, false, true},
		"the other chooses": {false, true, true},
		"neither chooses":   {false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			unlock, err := s.LockPorts(t.Context(), test.first)
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			ctx := t.Context()
			if test.excluded { // then it ends, when it has waited
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, 20*time.Millisecond)
				defer stop()
			}
			again, err := s.LockPorts(ctx, test.second)
			if err == nil {
				again()
			}
			if (err != nil) != test.excluded {
				t.Errorf("the second call got %v, want it excluded: %t", err, test.excluded)
			}
		})
	}
}
