// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"net/netip"
	"strings"
	"testing"
)

// TestWatcher: an address may move at any time; two that have it answer in turn.
func TestWatcher(t *testing.T) {
	for answers, duplicates := range map[string]int{"A": 0, "A A": 0, "A B": 0, "A A B B": 0, "A B C": 0, "A B A": 1, "A B A B": 2, "A B C A": 1, "A A B B B A": 1} {
		w := &Watcher{current: map[netip.Addr]bool{}, holders: map[netip.Addr]*holder{}}
		for _, hardware := range strings.Fields(answers) {
			w.answered(netip.MustParseAddr("10.0.0.2"), hardware)
			w.answered(netip.MustParseAddr("10.0.0.3"), "D")
		}
		if got := w.Duplicates(); len(got) != duplicates {
			t.Errorf("%s: %v, want %d", answers, got, duplicates)
		}
		if len(w.Answering()) != 2 {
			t.Errorf("%s: answering are %v", answers, w.Answering())
		}
	}
}
