// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"encoding/json"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestFresh: only before the first ADD of an attachment are no rules of it to be replaced.
func TestFresh(t *testing.T) {
	for name, test := range map[string]struct {
		attachment state.Attachment
		want       bool
	}{
		"the first ADD":     {state.Attachment{Planned: true, Attempts: 1}, true},
		"a further attempt": {state.Attachment{Planned: true, Attempts: 2}, false},
		"ADD has begun":     {state.Attachment{Attempts: 1}, false},
		"attached again":    {state.Attachment{Planned: true, Attempts: 1, FormerResult: json.RawMessage("{}")}, false},
		"a network":         {state.Attachment{}, false},
	} {
		if got := isFresh(test.attachment); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
