// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package errdefs sorts errors into the few kinds that callers act upon: the
// command line by its exit code, the agent by its HTTP status, the CNI plugin by
// its error code.
//
// An error type says its kind with a method Kind; New and As are for errors
// without a type of their own. An error that says nothing has failed.
package errdefs

import (
	"context"
	"errors"
)

// Kind is what a caller can expect after an error. They are ordered: the lower
// promises less.
type Kind int

const (
	// Failed is work that was begun and did not succeed.
	Failed Kind = iota
	// Timeout is work that was ended because it took too long.
	Timeout
	// Unavailable is work that was not done now, and may be done later.
	Unavailable
	// Conflict is a request that contradicts what exists; nothing was done.
	Conflict
	// Refused is a request that cannot be met as it is; nothing was done.
	Refused
	// NotFound is an allocation that is not on record; nothing was done.
	NotFound
)

func (k Kind) String() string {
	return [...]string{"failed", "timeout", "unavailable", "conflict", "refused", "not found"}[k]
}

// Of returns the kind of an error. The outermost error that says its kind
// decides over what it wraps: a request that a plugin refused has failed. Of
// several errors joined the lowest kind decides, so that "nothing was done" is
// true of all of them: one without a kind among them has failed.
func Of(err error) Kind {
	if c, ok := err.(classifier); ok { // errors.As would not rank joined errors
		return c.Kind()
	}
	switch wrapper := err.(type) { //nolint:errorlint // walks the tree itself
	case interface{ Unwrap() error }:
		return Of(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		return lowest(wrapper.Unwrap())
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Failed
}

type classifier interface{ Kind() Kind }

func lowest(errs []error) Kind {
	if len(errs) == 0 {
		return Failed
	}
	kind := Of(errs[0])
	for _, err := range errs[1:] {
		kind = min(kind, Of(err))
	}
	return kind
}

// classified is an error that was given a kind.
type classified struct {
	error
	kind Kind
}

func (c *classified) Kind() Kind { return c.kind }

func (c *classified) Unwrap() error { return c.error }

// New returns an error of a kind, to compare others with.
func New(kind Kind, text string) error { return As(kind, errors.New(text)) }

// As gives an error a kind, whatever kind it has. Nil stays nil.
func As(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return &classified{err, kind}
}
