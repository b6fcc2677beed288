// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"testing"
	"time"

	"github.com/allocnet/allocnet/state"
)

func TestDue(t *testing.T) {
	now := time.Now()
	pending := func(attempts int, ago time.Duration) state.Record {
		return state.Record{Attachments: []state.Attachment{{Phase: state.Pending, Attempts: attempts, Updated: now.Add(-ago)}}}
	}
	for name, test := range map[string]struct {
		record state.Record
		want   bool
	}{
		"the first attempt at once": {pending(1, 0), true},
		"the second not":            {pending(2, 9*time.Second), false},
		"but then":                  {pending(2, 10*time.Second), true},
		"the third later":           {pending(3, 39*time.Second), false},
		"from the future":           {pending(3, -time.Hour), true},
		"nothing is pending":        {state.Record{}, true},
	} {
		if got := due(test.record, now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
