// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestWhole(t *testing.T) {
	calls := 0
	got, err := Whole(func() ([]string, error) {
		if calls++; calls < 3 {
			return []string{"a"}, netlink.ErrDumpInterrupted
		}
		return []string{"a", "b"}, nil
	})
	if err != nil || len(got) != 2 || calls != 3 {
		t.Errorf("got %v, %v after %d calls, want both in the third", got, err, calls)
	}
	other := errors.New("no such thing")
	calls = 0
	if _, err := Whole(func() (int, error) { calls++; return 0, other }); !errors.Is(err, other) || calls != 1 {
		t.Errorf("got %v after %d calls, want the error after one", err, calls)
	}
	if _, err := Whole(func() (int, error) { return 0, netlink.ErrDumpInterrupted }); !errors.Is(err, netlink.ErrDumpInterrupted) {
		t.Errorf("got %v, want what it was always", err)
	}
}
