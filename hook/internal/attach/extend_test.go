// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package attach

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// TestPendingIsNotAttached: what an earlier attempt left on record does not make a
// request done, and nor do attachments of two calls.
func TestPendingIsNotAttached(t *testing.T) {
	attached := state.Attachment{Network: "web", Interface: "net1", Batch: state.Batch{Kind: state.BatchExtend, ID: "b"}, Phase: state.Attached, Status: json.RawMessage("{}")}
	pending := state.Attachment{Network: "web", Interface: "net2", Batch: state.Batch{Kind: state.BatchExtend, ID: "b"}, Phase: state.Pending, Error: "DEL: out of order"}
	unseen := state.Attachment{Network: "web", Interface: "net2", Batch: state.Batch{Kind: state.BatchExtend, ID: "b"}, Phase: state.Attached}
	later := attached
	later.Batch.First = 3
	another := pending
	another.Batch.ID = "c"
	for name, test := range map[string]struct {
		attachments []state.Attachment
		done        bool
		wrong       string
	}{
		"nothing":               {nil, false, ""},
		"all":                   {[]state.Attachment{attached, attached}, true, ""},
		"a part of each of two": {[]state.Attachment{attached, later}, false, ""},
		"the second as a whole": {[]state.Attachment{attached, later, later}, true, ""},
		"pending":               {[]state.Attachment{attached, pending}, false, "DEL: out of order"},
		"pending, and no other": {[]state.Attachment{pending}, false, "DEL: out of order"},
		"interrupted":           {[]state.Attachment{attached, unseen}, false, "phase attached"},
		"pending of another":    {[]state.Attachment{attached, attached, another}, true, ""},
	} {
		o := &operation.Operation{Record: state.Record{Allocation: state.Allocation{ID: "a"}, Attachments: test.attachments}}
		done, err := isExtended(o, "b", 2)
		if done != test.done || (err == nil) != (test.wrong == "") {
			t.Errorf("%s: %t, %v, want %t", name, done, err, test.done)
		}
		var failed *operation.Error
		if test.wrong != "" && (!errors.As(err, &failed) || failed.Interface != "net2" || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s: %v, want an *Error of net2 that says %q", name, err, test.wrong)
		}
	}
}
