// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestRepair(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup, Netns: "n"}, []Attachment{attachment("eth0", ""), attachment("net1", "")}))
	damaged := damage(t, l, onLine(3, func(b []byte) []byte { return b[1:] }))
	r, err := l.Load()
	must(t, err)
	if len(r.Damaged) != 1 {
		t.Errorf("got %v, want the line", r.Damaged)
	}
	r.Attachments = append(r.Attachments, attachment("net1", "again"))
	must(t, l.Repair(r))
	must(t, l.Write(attachment("net2", "")))
	for who, read := range readers(s, l) {
		if r, err := read(); err != nil || len(r.Damaged) != 0 || len(r.Attachments) != 3 {
			t.Errorf("%s: %+v, %v", who, r, err)
		}
	}
	kept, _ := filepath.Glob(s.dir + "/damaged/a/journal.*")
	if len(kept) != 1 {
		t.Fatalf("kept are %v", kept)
	}
	if data, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(data, damaged) {
		t.Errorf("what is kept is not what was there: %v", err)
	}
}
