// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/cniexec"
)

// maxAttempts is how often an attachment is tried.
const maxAttempts = 3

// tryLaterWindow is the time after the first attempt began in which another one begins if a plugin
// says that it cannot have something now (CNI code 11). It has waited for it itself, and may do so
// again each time, while the caller can do something else and come back.
const tryLaterWindow = 5 * time.Second

// isOver tells whether no attempt follows one that failed, after a pause.
func isOver(err error, attempts int, began time.Time, pause time.Duration) bool {
	var failed *types.Error
	late := errors.As(err, &failed) && failed.Code == types.ErrTryAgainLater && time.Since(began)+pause > tryLaterWindow
	return attempts >= maxAttempts || late || !cniexec.Transient(err)
}

// delay is the pause before the next try: 1 s and up to 1 s of jitter, so that
// the allocations of a host that failed together do not try together.
func delay() time.Duration {
	return time.Second + rand.N(time.Second)
}

// sleep pauses for d and returns early, with the cause, when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
