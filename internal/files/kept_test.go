// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files_test

import (
	"errors"
	"testing"

	"github.com/allocnet/allocnet/internal/files"
)

// TestKept: files are read again after each change, also one while they are read, and as long as they have no identity or cannot be read.
func TestKept(t *testing.T) {
	var k files.Kept[int]
	reads, failed := 0, errors.New("not readable")
	for i, step := range []struct {
		before, after string
		err           error
		want          int
	}{
		{"a", "a", nil, 1}, {"a", "a", nil, 1}, // kept
		{"b", "b", nil, 2}, {"b", "b", nil, 2}, {"a", "a", nil, 3}, // another one
		{"", "", nil, 4}, {"", "", nil, 5}, {"a", "a", nil, 6}, // just changed
		{"b", "c", nil, 7}, {"b", "b", nil, 8}, {"c", "c", nil, 9}, // changed meanwhile
		{"d", "d", failed, 10}, {"d", "d", nil, 11}, {"d", "d", failed, 11},
	} {
		isRead := false
		identity := func() string {
			if isRead {
				return step.after
			}
			return step.before
		}
		got, err := k.Read(identity, func() (int, error) {
			reads, isRead = reads+1, true
			return reads, step.err
		})
		if got != step.want || isRead && !errors.Is(err, step.err) || !isRead && err != nil {
			t.Errorf("step %d: %d, %v, want %d", i, got, err, step.want)
		}
	}
}
