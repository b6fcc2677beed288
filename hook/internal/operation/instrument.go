// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/step"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/state"
)

// Instrument does an operation and reports it, unless it was not attempted, because another
// one failed or the call ended: that is reported.
func (o *Operation) Instrument(op config.Op, a *state.Attachment, do func() error) error {
	started := time.Now()
	err := do()
	if a.Attempts == 0 {
		return err
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		failed.reported = true
	}
	o.Config.Report(o.Observation(op, *a, a.Attempts, started, err))
	return err
}

// Because sets the reason of what follows, until the function that it returns is called.
func (o *Operation) Because(reason config.Reason) (end func()) {
	before := o.Reason
	if before == "" {
		o.Reason = reason
	}
	return func() { o.Reason = before }
}

// Observation is that of the operation on an attachment, which ends now.
func (o *Operation) Observation(op config.Op, a state.Attachment, attempts int, started time.Time, err error) config.Observation {
	return config.NewObservation(op, o.Reason, o.Record.Allocation, a, attempts, started, err)
}

// ReportCall reports a call as a whole, unless it succeeded or failed with an attachment, which is reported.
func (e *Env) ReportCall(o config.Observation, started time.Time) {
	if failed, ok := errors.AsType[*Error](o.Err); o.Err == nil || ok && failed.reported {
		return
	}
	if state.ValidateID(o.Allocation) != nil {
		o.Allocation = ""
	}
	o.Took = time.Since(started)
	e.Config.Report(o)
}

// Error is the failure of one operation on one attachment.
type Error struct {
	// Op is "attach", "detach" or "check".
	Op         string
	Allocation string
	Network    string
	Interface  string
	// Attempts is the number of times that the operation was tried.
	Attempts int
	// Err is the cause of the first failure: later ones are often only its
	// consequence.
	Err error

	// reported is whether the observers have it.
	reported bool
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s network %q as %s of allocation %s", e.Op, e.Network, e.Interface, e.Allocation)
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (%d attempts)", e.Attempts)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Kind is Failed, as plugins have run, unless time or the caller ended it. A port that no address can serve is refused: only the
// result tells, and what was done is undone, or else that error is joined to this one.
func (e *Error) Kind() errdefs.Kind {
	if _, ok := errors.AsType[*step.PortFamilyError](e.Err); ok {
		return errdefs.Refused
	}
	if kind := errdefs.Of(e.Err); kind == errdefs.Timeout || kind == errdefs.Unavailable {
		return kind
	}
	return errdefs.Failed
}
