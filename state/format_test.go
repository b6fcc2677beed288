// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// firstFormat is that of the first release.
const firstFormat = 3

// TestReleasedFormats: a record that any release wrote is read, without the loss of a
// field. A new format needs a file in testdata, as an attach of that version wrote it.
func TestReleasedFormats(t *testing.T) {
	for version := firstFormat; version <= FormatVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			written, err := os.ReadFile(fmt.Sprintf("testdata/format-%d.journal", version))
			must(t, err)
			s := open(t)
			l := lock(t, s, "web-1")
			must(t, l.Begin(Allocation{ID: "web-1", Mode: ModeSetup}, nil))
			damage(t, l, func([]byte) []byte { return written })
			r, err := l.Load()
			if err != nil || len(r.Damaged) > 0 || len(r.Attachments) != 2 {
				t.Fatalf("read %d attachments, damaged %v, %v", len(r.Attachments), r.Damaged, err)
			}
			for _, a := range r.Attachments {
				if a.Phase != Attached || len(a.ConfList) == 0 || len(a.Result) == 0 || len(a.PluginDirs) == 0 {
					t.Errorf("%s: %+v", a.Interface, a)
				}
			}
			for data := range strings.Lines(string(written)) {
				requireComplete(t, []byte(data))
			}
		})
	}
}

// requireComplete compares a record with what is written of it again.
func requireComplete(t *testing.T, data []byte) {
	t.Helper()
	var old line
	must(t, json.Unmarshal(data, &old))
	c, err := decode(data)
	must(t, err)
	again, err := json.Marshal(c)
	must(t, err)
	var before, after any
	must(t, json.Unmarshal(old.Record, &before))
	must(t, json.Unmarshal(again, &after))
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a record changes when it is read (-written +read):\n%s", diff)
	}
}
