// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package errdefs classifies errors by the few kinds that callers handle differently: the command
// line with its exit code, the agent with the HTTP status, the CNI plugin with the error code.
// Each of them has a table: cmd/allocnet/cli/exit.go, agent/api/error.go.
//
// An error has a type if a caller decides by it, and a method Kind; New and As are for errors
// without a type of their own. An error without a kind is Failed. The kind of the outermost error
// counts; of joined errors, the one that promises least. A test of cmd/allocnet finds every error
// type in the source and checks its exit code, status and CNI code.
package errdefs

import (
	"context"
	"errors"
)

// Kind classifies an error by its effects. Kinds are ordered: a lower one guarantees
// less.
type Kind int

const (
	// Failed is an operation that began and did not succeed.
	Failed Kind = iota
	// Timeout is an operation that was ended by its deadline.
	Timeout
	// Unavailable is an operation that was not done now, and may be repeated.
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

// Of returns the kind of an error. The outermost error that has a kind decides: a
// request that a plugin refused has failed. Of joined errors the lowest kind decides,
// so that "nothing was done" is true of each: with one that has no kind among them,
// the kind is Failed.
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

// classified adds a kind to an error.
type classified struct {
	error
	kind Kind
}

func (c *classified) Kind() Kind { return c.kind }

func (c *classified) Unwrap() error { return c.error }

// New returns an error of a kind, to compare others with.
func New(kind Kind, text string) error { return As(kind, errors.New(text)) }

// As sets the kind of an error, in place of the one it has. Nil stays nil.
func As(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return &classified{err, kind}
}
