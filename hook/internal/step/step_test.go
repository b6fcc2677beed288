// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// withTable has the tests' steps in place of the real ones.
func withTable(t *testing.T, steps ...step) {
	real := table
	t.Cleanup(func() { table = real })
	table = steps
}

// logging is a step that takes part in ADD and DEL.
func logging(name string, to *[]string) step {
	note := func(what string) { *to = append(*to, what+" "+name) }
	return step{
		Around: func(_ context.Context, _ *Work, _ Call, add func() error) error {
			note("before")
			defer note("after")
			return add()
		},
		Judge: func(_ *Work, _ Call, err error) error { note("judge"); return err },
		Undo:  func(context.Context, *Work, state.Attachment) { note("undo") },
	}
}

// TestOrder: steps are within each other during ADD, and undone in reverse. One that takes no part is passed over.
func TestOrder(t *testing.T) {
	var got []string
	withTable(t, logging("a", &got), step{}, logging("b", &got))
	w, failed := &Work{}, errors.New("failed")
	if err := w.Add(t.Context(), Call{}, func() error { got = append(got, "ADD"); return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	w.Undo(t.Context(), state.Attachment{})
	want := "before a, before b, ADD, judge a, judge b, after b, after a, undo b, undo a"
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("got %s, want %s", all, want)
	}
}

// bare is a namespace that has nothing of what was made.
type bare struct {
	kernel.Namespace
	made []string
}

func (*bare) AcceptsRA(string, bool) (bool, error)     { return false, nil }
func (*bare) DefaultRoutes() ([]netns.Route, error)    { return nil, nil }
func (*bare) Interfaces() ([]netns.Interface, error)   { return nil, nil }
func (b *bare) RestoreAcceptRA(i string, _ bool) error { b.made = append(b.made, "ra "+i); return nil }
func (b *bare) AddSourceRoutes(netns.SourceRoutes) error {
	b.made = append(b.made, "table")
	return nil
}

func (*bare) MissingSourceRoutes(netns.SourceRoutes) ([]string, error) {
	return []string{"rule", "route"}, nil
}

// TestLacks: what is missing is named and can be made, once where it is made together.
func TestLacks(t *testing.T) {
	b, accept := &bare{}, false
	w := &Work{Namespace: func() (kernel.Namespace, error) { return b, nil }}
	a := state.Attachment{Interface: "eth0", Status: []byte(`{}`), AcceptRA: &accept, SourceRoutes: &netns.SourceRoutes{}}
	lacks, err := w.Lacks(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range lacks {
		names = append(names, l.What)
		if l.Make != nil {
			if err := l.Make(); err != nil {
				t.Error(err)
			}
		}
	}
	if want := []string{"eth0 has to ignore IPv6 router advertisements", "route", "rule"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if want := []string{"ra eth0", "table"}; !slices.Equal(b.made, want) {
		t.Errorf("made %q, want %q", b.made, want)
	}
}
