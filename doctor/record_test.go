// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/state"
)

func TestRecordFindings(t *testing.T) {
	damaged := []state.Damaged{{Path: "/j", Line: 2, Err: errors.New("checksum")}}
	for name, test := range map[string]struct {
		record state.Record
		want   []string
	}{
		"intact": {state.Record{
			Allocation:  state.Allocation{ID: "a1"},
			Attachments: []state.Attachment{{Interface: "net1", Phase: state.Attached}, {Interface: "net2", Phase: state.Adding}},
		}, nil},
		"pending teardown": {state.Record{
			Allocation:  state.Allocation{ID: "a1"},
			Attachments: []state.Attachment{{Interface: "net1", Phase: state.Pending, Attempts: 4, Error: "no plugin"}},
		}, []string{"error a1: teardown of net1 is pending, attempt 4 failed: no plugin => allocnet detach a1"}},
		"damaged, of an unknown namespace": {state.Record{
			Allocation: state.Allocation{ID: "a1"}, Damaged: damaged,
		}, []string{"error a1: record is damaged: /j, line 2: checksum => allocnet check --repair a1"}},
		"damaged, of a missing namespace": {state.Record{
			Allocation: state.Allocation{ID: "a1", Netns: filepath.Join(t.TempDir(), "gone")}, Damaged: damaged,
		}, []string{"error a1: record is damaged: /j, line 2: checksum => allocnet gc"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{}
			recordFindings(r, test.record)
			requireFindings(t, r, test.want...)
		})
	}
}

func TestRecords(t *testing.T) {
	dir := t.TempDir()
	store, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	examine := func() *Report {
		r := &Report{}
		(&Doctor{Store: store}).records(t.Context(), r, nil)
		return r
	}
	requireFindings(t, examine())
	for path, text := range map[string]string{"allocations/torn/journal": "{", "locks/killed": ""} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := examine()
	if len(r.Findings) != 2 {
		t.Fatalf("findings %+v, want the record and the lock", r.Findings)
	}
	if f := r.Findings[0]; f.Severity != Error || f.Subject != "torn" || !strings.Contains(f.Problem, "record is damaged: "+dir) || f.Fix != "allocnet check --repair torn" {
		t.Errorf("damaged record: %+v", f)
	}
	if f := r.Findings[1]; f != (Finding{Severity: Warning, Subject: "killed", Problem: "a killed process left its lock file", Fix: "allocnet gc"}) {
		t.Errorf("stale lock: %+v", f)
	}
	if err := os.RemoveAll(filepath.Join(dir, "locks")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "locks"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := examine().Findings; len(f) != 2 || f[1].Severity != Error || !strings.HasPrefix(f[1].Problem, "cannot list lock files: ") {
		t.Errorf("locks that cannot be listed: %+v", f)
	}
}
