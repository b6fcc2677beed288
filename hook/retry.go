// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"math/rand/v2"
	"os/exec"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"
)

// maxAttempts is how often an attachment is tried.
const maxAttempts = 3

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

// transient tells whether a failed ADD may succeed when tried again. Deadlines
// are not: a plugin that hung for a minute would keep its caller for three.
func transient(err error) bool {
	var timeout *TimeoutError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) {
		return false
	}
	var own *types.Error
	if errors.As(err, &own) {
		return transientCode(own.Code)
	}
	var died *ExecError
	if errors.As(err, &died) {
		var exit *exec.ExitError
		return errors.As(err, &exit) || errors.Is(err, unix.ETXTBSY)
	}
	return transientText(err.Error())
}

// transientCode sorts the codes of the CNI specification 1.1, "Error". Code 0
// is a plugin that gave none.
func transientCode(code uint) bool {
	switch code {
	case 0, types.ErrIOFailure, types.ErrTryAgainLater, types.ErrPluginNotAvailable, types.ErrLimitedConnectivity:
		return true
	}
	return code >= 100
}

// transientText knows the errors that reach us only as text: libcni's own
// second try after "text file busy" fails with "exec: already started".
func transientText(text string) bool {
	return strings.Contains(text, "text file busy") || strings.Contains(text, "exec: already started")
}
