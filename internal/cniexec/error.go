// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"fmt"
	"time"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// TimeoutError is a plugin that was killed because it exceeded the deadline.
type TimeoutError struct {
	Plugin string
	Verb   string
	Limit  time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("plugin %s did not answer %s within %s and was killed", e.Plugin, e.Verb, e.Limit.Round(100*time.Millisecond))
}

// Kind is that of package errdefs.
func (*TimeoutError) Kind() errdefs.Kind { return errdefs.Timeout }

// CommitTimeoutError is a commit of networks executed in process that exceeded the deadline.
type CommitTimeoutError struct{ Limit time.Duration }

func (e *CommitTimeoutError) Error() string {
	return fmt.Sprintf("rules and links were not changed within %s: another program may hold the lock of iptables", e.Limit.Round(100*time.Millisecond))
}

// Kind is that of package errdefs.
func (*CommitTimeoutError) Kind() errdefs.Kind { return errdefs.Timeout }

// ExecError is a plugin that could not be run, or ended without saying why in
// the form that the CNI specification asks for.
type ExecError struct {
	Plugin string
	Verb   string
	// Stderr is the end of what the plugin wrote there.
	Stderr string
	Err    error
}

func (e *ExecError) Error() string {
	msg := fmt.Sprintf("plugin %s: %s: %v", e.Plugin, e.Verb, e.Err)
	if e.Stderr != "" {
		msg += ": " + e.Stderr
	}
	return msg
}

// Kind is that of package errdefs.
func (*ExecError) Kind() errdefs.Kind { return errdefs.Failed }

func (e *ExecError) Unwrap() error { return e.Err }
