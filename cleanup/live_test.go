// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestAskedAgain: what has begun to live since the plan stays, and so does all when
// the answer cannot be had.
func TestAskedAgain(t *testing.T) {
	store, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	objects := map[string][]Object{}
	for _, id := range []string{"dead", "begun"} {
		path := filepath.Join(dir, id)
		if err := os.WriteFile(path, []byte(id), 0o600); err != nil {
			t.Fatal(err)
		}
		objects[id] = []Object{{Kind: Tuning, Owner: Owner{Allocation: id}, Where: path, file: &file{path: path, content: id}}}
	}
	left := func() (n int) {
		entries, _ := os.ReadDir(dir)
		return len(entries)
	}
	c := Collector{Store: store, RefreshLive: func(context.Context) (Live, error) { return nil, errors.New("no route to host") }}
	remove := func() error {
		_, err := c.removeBatch(t.Context(), []string{"dead", "begun"}, objects, &scanResult{}, &Report{})
		return err
	}
	if err := remove(); err == nil || left() != 2 {
		t.Errorf("unknown: %v, %d files are left, want an error and 2", err, left())
	}
	c.RefreshLive = func(context.Context) (Live, error) {
		return func(id string) string { return map[string]string{"begun": "Nomad"}[id] }, nil
	}
	if err := remove(); err != nil || left() != 1 {
		t.Errorf("one lives: %v, %d files are left, want 1", err, left())
	}
}

// TestUnrecognised: words that name nothing of the host are told, and a list of such words alone is refused while there are leaks. A
// complete ID of Nomad may be one of an allocation without networks.
func TestUnrecognised(t *testing.T) {
	const nomad, recorded = "8ba85cef-26cc-6cd8-02b5-9e0cd9bd3c5c", "7777aaaa-26cc-6cd8-02b5-9e0cd9bd3c5c"
	for name, test := range map[string]struct {
		words   []string
		leaks   bool
		want    []string
		refused bool
	}{
		"has objects":          {words: []string{"a1", "node-1"}, leaks: true, want: []string{"node-1"}},
		"on record":            {words: []string{recorded, "node-1"}, leaks: true, want: []string{"node-1"}},
		"short, on record":     {words: []string{"7777aaaa", "node-1"}, leaks: true, want: []string{"node-1"}},
		"too short":            {words: []string{"7777aaa"}, leaks: true, refused: true},
		"without networks":     {words: []string{nomad}, leaks: true},
		"words":                {words: []string{"node-1", "running"}, leaks: true, refused: true},
		"words, without leaks": {words: []string{"node-1", "running"}, want: []string{"node-1", "running"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, c, lease := leased(t)
			if !test.leaks {
				f.saved["iptables-nft"] = ""
				if err := os.Remove(lease); err != nil {
					t.Fatal(err)
				}
			}
			if test.leaks {
				record(t, c, state.Allocation{ID: recorded, Mode: state.ModeSetup, Netns: "/run/netns/" + recorded}, setUpIn(state.Attached))
			}
			unknown, err := c.Unrecognised(t.Context(), test.words)
			if !slices.Equal(unknown, test.want) || (err != nil) != test.refused || err != nil && !strings.Contains(err.Error(), strings.Join(test.words, ", ")) {
				t.Errorf("%q, %v", unknown, err)
			}
		})
	}
}
