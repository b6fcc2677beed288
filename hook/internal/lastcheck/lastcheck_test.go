// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lastcheck

import (
	"errors"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/state"
)

// TestJudged: damage is proven by the second CHECK in a row that reports it, for the attachment that was checked.
func TestJudged(t *testing.T) {
	var o Outcomes
	damage, hangs := inspect.Damaged("no rule"), errors.New("it hangs")
	key := KeyOf(state.Record{Allocation: state.Allocation{ID: "a"}}, state.Attachment{Interface: "eth0", Created: time.Unix(1, 0)})
	for i, step := range []struct {
		reported error
		proven   bool
	}{{damage, false}, {damage, true}, {hangs, false}, {damage, false}, {damage, true}, {nil, false}, {damage, false}} {
		o.Note(key, step.reported)
		last, found := o.Of(key)
		if judged := last.Judged(); !found || inspect.IsDamage(judged) != step.proven || (judged == nil) != (step.reported == nil) {
			t.Errorf("CHECK %d: %v, want damage proven: %t", i, judged, step.proven)
		}
	}
	if o.Keep([]string{"b"}); len(o.outcomes) > 0 {
		t.Errorf("kept %v", o.outcomes)
	}
}
