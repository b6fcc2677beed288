// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
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
		o := &operation{record: state.Record{Allocation: state.Allocation{ID: "a"}, Attachments: test.attachments}}
		done, err := o.isExtended("b", 2)
		if done != test.done || (err == nil) != (test.wrong == "") {
			t.Errorf("%s: %t, %v, want %t", name, done, err, test.done)
		}
		var failed *Error
		if test.wrong != "" && (!errors.As(err, &failed) || failed.Interface != "net2" || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s: %v, want an *Error of net2 that says %q", name, err, test.wrong)
		}
	}
}

// TestAttachedWithTheIdentity: plugins are told whose an allocation is, also by a call that does
// not know it.
func TestAttachedWithTheIdentity(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	m.network(t, "storage", "macvlan")
	identity := policy.Identity{Namespace: "prod", Job: "db", Group: "main", Region: "eu"}
	if _, err := m.Setup(t.Context(), Request{ID: "a1", Identity: identity, Primary: &selection.Element{Name: "web", Interface: "eth0"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Attach(t.Context(), "a1", []selection.Element{{Name: "storage"}}); err != nil {
		t.Fatal(err)
	}
	const want = "IgnoreUnknown=true;NOMAD_ALLOC_ID=a1;NOMAD_GROUP_NAME=main;NOMAD_JOB_ID=db;NOMAD_NAMESPACE=prod;NOMAD_REGION=eu"
	for _, c := range m.exec.calls {
		if got := c.Environ["CNI_ARGS"]; got != want {
			t.Errorf("%s: CNI_ARGS is %s, want %s", c, got, want)
		}
	}
}
