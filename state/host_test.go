// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestCollectingGivesUp: an attachment that takes long delays no other one,
// although a collector waits.
func TestCollectingGivesUp(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	slow, err := s.RLockHost(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer slow()
	if _, err := s.LockHost(ctx); !errors.Is(err, ErrAttaching) {
		t.Errorf("collecting while something is attached: %v", err)
	}
	again, err := s.RLockHost(ctx)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// TestAttachmentWaits shows to the holder of LockHost.
func TestAttachmentWaits(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := s.LockHost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.AttachmentWaits() {
		t.Error("nothing waits, but something does")
	}
	attached := make(chan error)
	go func() {
		release, err := s.RLockHost(t.Context())
		if err == nil {
			release()
		}
		attached <- err
	}()
	for !s.AttachmentWaits() { // go test's deadline ends it
		time.Sleep(time.Millisecond)
	}
	unlock()
	if err := <-attached; err != nil {
		t.Error(err)
	}
	if s.AttachmentWaits() {
		t.Error("something waits that is done")
	}
}
