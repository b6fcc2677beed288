// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"testing"

	"github.com/allocnet/allocnet/state"
)

// Interrupt leaves an attachment on record as a process does that is killed while it attaches.
func Interrupt(t testing.TB, allocation, iface string) {
	t.Helper()
	store, err := state.Open(state.DefaultDir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := store.Lock(t.Context(), allocation)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	record, err := lock.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, attachment := range record.Attachments {
		if attachment.Interface != iface {
			continue
		}
		attachment.Phase = state.Adding
		if err := lock.Write(attachment); err != nil {
			t.Fatal(err)
		}
	}
}
