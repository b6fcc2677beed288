// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/step"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// ErrConflict is a Setup of an allocation that is set up with another request.
var ErrConflict = errdefs.New(errdefs.Conflict, "is set up already with a different request: tear it down first")

// ErrExists is a Setup with Request.Fresh of an allocation that is set up.
var ErrExists = errdefs.New(errdefs.Conflict, "is set up already: tear it down first")

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
	var port *PortFamilyError
	if errors.As(e.Err, &port) {
		return errdefs.Refused
	}
	if kind := errdefs.Of(e.Err); kind == errdefs.Timeout || kind == errdefs.Unavailable {
		return kind
	}
	return errdefs.Failed
}

// DamageError is what was seen to be wrong with a network.
type DamageError = inspect.DamageError

// PortFamilyError is a chosen port of the host that no address of the attachment can serve.
type PortFamilyError = step.PortFamilyError
