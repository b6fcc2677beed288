// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/agent/api"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(limiter, 2)
		acquire := func() (release func(), waited time.Duration) {
			t.Helper()
			began := time.Now()
			release, err := l.acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return release, time.Since(began)
		}
		first, _ := acquire()
		hung, _ := acquire()
		time.AfterFunc(time.Second, first)
		third, waited := acquire()
		if waited != time.Second {
			t.Errorf("the third waited for %v, want until the first released its slot", waited)
		}
		if _, waited = acquire(); waited != slotTimeout-time.Second {
			t.Errorf("the fourth waited for %v, want until the request that hangs lost its slot after %v", waited, slotTimeout)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		var busy *api.Error
		if _, err := l.acquire(ended); !errors.As(err, &busy) || busy.Status != 503 {
			t.Errorf("without a slot: %v", err)
		}
		hung() // its slot is taken, and is not freed twice
		if len(l) != 2 {
			t.Errorf("%d slots are taken, want those of the third and the fourth", len(l))
		}
		third()
		if len(l) != 1 {
			t.Errorf("%d slots are taken, want that of the fourth", len(l))
		}
	})
}
