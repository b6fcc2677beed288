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

func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(line, 2)
		enter := func() (leave func(), waited time.Duration) {
			t.Helper()
			began := time.Now()
			leave, err := l.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return leave, time.Since(began)
		}
		first, _ := enter()
		hung, _ := enter()
		time.AfterFunc(time.Second, first)
		third, waited := enter()
		if waited != time.Second {
			t.Errorf("the third waited for %v, want until the first left", waited)
		}
		if _, waited = enter(); waited != patience-time.Second {
			t.Errorf("the fourth waited for %v, want until one that hangs had kept its place for %v", waited, patience)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		var busy *api.Error
		if _, err := l.enter(ended); !errors.As(err, &busy) || busy.Status != 503 {
			t.Errorf("without a place: %v", err)
		}
		hung() // its place was given away, and is not given again
		if len(l) != 2 {
			t.Errorf("%d are at work, want the third and the fourth", len(l))
		}
		third()
		if len(l) != 1 {
			t.Errorf("%d are at work, want the fourth", len(l))
		}
	})
}
