// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"errors"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Errors of a pool, beside those of its store. They say what a runtime should do.
var (
	// ErrInvalid is a configuration or a request that will never work as it is.
	ErrInvalid = errdefs.New(errdefs.Refused, "invalid")
	// ErrMismatch is a configuration that differs from that of the other hosts.
	ErrMismatch = errdefs.New(errdefs.Refused, "the pool is configured differently on other hosts")
	// ErrTwin is a host with the identity of another, such as a clone of its disk.
	ErrTwin = errdefs.New(errdefs.Refused, "another host has this host's identity")
	// ErrExhausted is a pool, or what this host has of it, without a free address. Trying
	// again later may help.
	ErrExhausted = errdefs.New(errdefs.Unavailable, "no free address")
	// ErrFenced is a host that has not verified for long that its blocks are its own.
	ErrFenced = errdefs.New(errdefs.Unavailable, "the blocks of this host are not verified")
	// ErrNoLease is an attachment without the lease that it should have.
	ErrNoLease = errors.New("no lease")
)
