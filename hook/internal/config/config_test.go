// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("slept %s, %v", time.Since(begun), err)
		}
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, gaveUp)
		defer cancel()
		begun = time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, gaveUp) || time.Since(begun) != time.Minute {
			t.Errorf("slept %s, %v", time.Since(begun), err)
		}
	})
}
