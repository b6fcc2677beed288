// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/selection"
)

// TestTryLater: a plugin that waits, and then says that the caller has to come back later, is not
// called again and again. One that says so at once is, and so is one that failed otherwise.
func TestTryLater(t *testing.T) {
	for name, test := range map[string]struct {
		code     uint
		takes    time.Duration
		attempts int
	}{
		"at once":              {types.ErrTryAgainLater, 0, 3},
		"after four seconds":   {types.ErrTryAgainLater, 4500 * time.Millisecond, 1},
		"after two seconds":    {types.ErrTryAgainLater, 2 * time.Second, 2},
		"of another kind, too": {types.ErrIOFailure, 4500 * time.Millisecond, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "web", "bridge")
			m.env.Config.Pause = config.Sleep
			adds := 0
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if !strings.HasPrefix(c.String(), "ADD") {
					return false, nil, nil
				}
				adds++
				time.Sleep(test.takes)
				return true, nil, types.NewError(test.code, "no answer", "")
			}
			_, err := m.Setup(t.Context(), Request{ID: "a1", Primary: &selection.Element{Name: "web", Interface: "eth0"}})
			if err == nil || !strings.Contains(err.Error(), "no answer") || adds != test.attempts {
				t.Errorf("%s: %d attempts, error %v, want %d attempts", name, adds, err, test.attempts)
			}
		})
	}
}
