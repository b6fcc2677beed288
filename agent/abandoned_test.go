// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestAbandoned(t *testing.T) {
	empty := []string{"/run/netns/left", "/run/netns/slow"}
	broken := error(nil)
	a := abandoned{unused: func(paths []string) (unused []string, err error) {
		for _, path := range paths {
			if slices.Contains(empty, path) {
				unused = append(unused, path)
			}
		}
		return unused, broken
	}}
	begun := time.Now()
	find := func(after time.Duration, ended ...string) []string {
		t.Helper()
		found, err := a.find(ended, time.Minute, begun.Add(after))
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		return found
	}
	if found := find(0, "left", "slow", "used"); found != nil {
		t.Errorf("at first sight: %q", found)
	}
	empty = empty[:1] // the orchestrator has removed the other one
	if found := find(59*time.Second, "left", "slow", "used"); found != nil {
		t.Errorf("before its time: %q", found)
	}
	empty = append(empty, "/run/netns/slow")
	if found := find(time.Minute, "left", "slow", "used"); !slices.Equal(found, []string{"left"}) {
		t.Errorf("got %q, want the one that was left for a minute", found)
	}
	broken = errors.New("no /proc")
	if found := find(2*time.Minute, "left"); found != nil {
		t.Errorf("without a list of processes: %q", found)
	}
	broken = nil
	if found := find(2*time.Minute, "slow"); !slices.Equal(found, []string{"slow"}) {
		t.Errorf("got %q, want the one that has ended still", found)
	}
}
