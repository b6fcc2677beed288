// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// TestReplacesRoutes: also of attachments whose DEL was done before a kill, which the allocation keeps.
func TestReplacesRoutes(t *testing.T) {
	routes := []netns.Route{{Interface: "eth0"}}
	for name, test := range map[string]struct {
		record state.Record
		want   bool
	}{
		"none":                     {state.Record{Attachments: []state.Attachment{{Interface: "net1"}}}, false},
		"of an attachment":         {state.Record{Attachments: []state.Attachment{{Interface: "net1"}, {Interface: "net2", PreviousRoutes: routes}}}, true},
		"of one that is not there": {state.Record{Allocation: state.Allocation{PreviousRoutes: routes}}, true},
	} {
		if got := replacesRoutes(test.record); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
