// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestSilentStore: one that does not answer is waited for once, and not for all that is to be read.
func TestSilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		h := newHost(t, store, 0, `"ranges": [{"subnet": "10.0.0.0/28"}]`)
		h.requireAdd("a", "10.0.0.2")
		store.hangs.Store(true)
		asked, begun := store.reads.Load(), time.Now()
		if _, err := h.Show(t.Context()); !errors.Is(err, ipam.ErrUnavailable) || time.Since(begun) != answerTimeout || store.reads.Load() != asked+1 {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}
