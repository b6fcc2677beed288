// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package attach

import (
	"context"
	"errors"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// TestAborted: the reason to abort says what kind of error it is, whatever the
// attempts failed with.
func TestAborted(t *testing.T) {
	busy := errors.New("bridge: device or resource busy")
	for _, kind := range []errdefs.Kind{errdefs.Timeout, errdefs.Unavailable, errdefs.Failed} {
		abort, stop := context.WithCancelCause(t.Context())
		cause := errdefs.New(kind, "ended")
		stop(cause)
		err := abortError(abort, busy)
		if errdefs.Of(err) != kind || !errors.Is(err, cause) || !errors.Is(err, busy) {
			t.Errorf("%v is %v, want %v", err, errdefs.Of(err), kind)
		}
		if err := abortError(abort, nil); errdefs.Of(err) != kind || !errors.Is(err, cause) {
			t.Errorf("%v is %v, want %v", err, errdefs.Of(err), kind)
		}
	}
}
