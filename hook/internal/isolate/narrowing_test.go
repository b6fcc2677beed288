// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"testing"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/state"
)

// TestNarrowedMember: what a job leaves is as it is on record, whatever its network has by now. What is not understood, as of a later program, leaves
// nothing.
func TestNarrowedMember(t *testing.T) {
	for recorded, want := range map[allocation.Narrowing][2]string{
		{}:                    {"", ""},
		{Ingress: "5432/tcp"}: {"5432/tcp", ""},
		{Ingress: "job db", Egress: "10.0.0.0/8"}: {"nothing", "10.0.0.0/8"},
		{Egress: "none"}: {"", "nothing"},
	} {
		i := state.Isolation{Level: "strict", NoHost: true, Narrowing: recorded, End: "veth9", Bridge: "br0", MAC: "02:00:00:00:00:09"}
		m, ok := member(state.Allocation{}, state.Attachment{Network: "n", Isolation: &i}, networkLevels{"n": {Level: "none"}})
		var got [2]string
		if m.Ingress != nil {
			got[0] = m.Ingress.String()
		}
		if m.Egress != nil {
			got[1] = m.Egress.String()
		}
		if !ok || got != want {
			t.Errorf("%+v: %q, %t, want %q", recorded, got, ok, want)
		}
		if left := i.Unplaced(); left.Narrowing != recorded || left.Level != "strict" || !left.NoHost || left.End+left.Bridge+left.MAC != "" || left.Addresses != nil {
			t.Errorf("without its place it is %+v", left)
		}
	}
}
