// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// BusyError is an address that the caller may have later.
type BusyError struct {
	Address netip.Addr
	// Reason says what must happen first.
	Reason string
	// Err is why it is not known whether that has happened. Nil: it is known.
	Err error
	// wait is for how long the address is not free in any case. 0: that is not known.
	wait time.Duration
}

func (e *BusyError) Error() string {
	text := fmt.Sprintf("reserved address %s is not free yet: %s", e.Address, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Kind is that of package errdefs.
func (*BusyError) Kind() errdefs.Kind { return errdefs.Unavailable }

// Unwrap returns Err.
func (e *BusyError) Unwrap() error { return e.Err }

// Is makes it an ipam.ErrExhausted.
func (*BusyError) Is(target error) bool { return target == ipam.ErrExhausted }

// RefusedError is an address that the caller does not get.
type RefusedError struct {
	Address netip.Addr
	// Reason says why, and what would be right.
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("reserved address %s is refused: %s", e.Address, e.Reason)
}

// Kind is that of package errdefs.
func (*RefusedError) Kind() errdefs.Kind { return errdefs.Refused }

// Is makes it an ipam.ErrInvalid.
func (*RefusedError) Is(target error) bool { return target == ipam.ErrInvalid }
