// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestFilter selects events.
func TestFilter(t *testing.T) {
	const nomad = "5c2e9a0e-1111-2222-3333-444455556666"
	dir := t.TempDir()
	add(t, newRing(dir),
		Event{Allocation: nomad, Networks: []string{"web"}},
		Event{Allocation: "web-1", Networks: []string{"web", "storage"}},
		Event{Allocation: "web-10", Networks: []string{"storage"}},
		Event{})
	for name, test := range map[string]struct {
		filter Filter
		want   []uint64
	}{
		"all":                 {Filter{}, []uint64{1, 2, 3, 4}},
		"ID":                  {Filter{Allocation: "web-1"}, []uint64{2}},
		"prefix of Nomad's":   {Filter{Allocation: "5c2e9a0e"}, []uint64{1}},
		"no prefix of others": {Filter{Allocation: "web"}, nil},
		"network":             {Filter{Network: "storage"}, []uint64{2, 3}},
		"unknown network":     {Filter{Network: "none"}, nil},
		"after":               {Filter{After: 2}, []uint64{3, 4}},
		"after the newest":    {Filter{After: 4}, nil},
		"of another ring":     {Filter{After: 5}, []uint64{1, 2, 3, 4}},
		"both":                {Filter{Allocation: "web-1", Network: "web", After: 1}, []uint64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []uint64
			for e, err := range (Log{StateDir: dir}).Events(t.Context(), test.filter, false) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.Index)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// TestFollow: a follower gets events as they come, also in a state directory that does not
// exist yet, and after the directory was removed; it ends with its context.
func TestFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan Event)
	go func() {
		defer close(got)
		for e, err := range (Log{StateDir: dir}).Events(ctx, Filter{}, true) {
			if err != nil {
				t.Error(err)
			}
			got <- e
		}
	}()
	for range 2 {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		r := testRing(dir)
		for i := range uint64(3) {
			add(t, r, make([]Event, 10)...)
			for j := range uint64(10) {
				if e := <-got; e.Index != 10*i+j+1 {
					t.Fatalf("index %d, want %d", e.Index, 10*i+j+1)
				}
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if e, more := <-got; more {
		t.Errorf("%+v", e)
	}
}

// TestUnreadable: the error names the file, and a newer format is skipped.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	r := newRing(dir)
	add(t, r, Event{})
	newer := `{"version":2,"index":2,"verb":["?"]}` + "\n"
	file, err := os.OpenFile(r.path(currentFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(newer); err != nil {
		t.Fatal(err)
	}
	add(t, r, Event{})
	found := all(t, r)
	if len(found) != 2 || found[1].Index != 3 {
		t.Errorf("%+v", found)
	}
	if err := os.Remove(r.path(currentFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(r.path(currentFile), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, err := range (Log{StateDir: dir}).Events(t.Context(), Filter{}, true) {
		if err == nil {
			t.Error("a directory was read")
		}
	}
}
