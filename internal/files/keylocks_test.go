// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestExclusion(t *testing.T) {
	var locks KeyLocks
	var all sync.WaitGroup
	counter := 0 // the race detector sees it when the lock does not hold
	for range 100 {
		all.Go(func() {
			unlock, err := locks.Lock(context.Background(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			counter++
		})
	}
	all.Wait()
	if counter != 100 || len(locks.held) != 0 {
		t.Errorf("counter %d, %d keys kept: want 100 and none", counter, len(locks.held))
	}
}

func TestKeysDoNotWaitForEachOther(t *testing.T) {
	var locks KeyLocks
	first, err := locks.Lock(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer first()
	second, err := locks.Lock(context.Background(), "b")
	if err != nil {
		t.Fatal(err)
	}
	second()
	second() // again
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks KeyLocks
		unlock, err := locks.Lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("scripted")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error)
		go func() {
			_, err := locks.Lock(ctx, "a")
			result <- err
		}()
		synctest.Wait()
		cancel(cause)
		if err := <-result; !errors.Is(err, cause) {
			t.Errorf("got %v, want the context's cause", err)
		}
		unlock()
		if len(locks.held) != 0 {
			t.Errorf("%d keys kept", len(locks.held))
		}
	})
}
