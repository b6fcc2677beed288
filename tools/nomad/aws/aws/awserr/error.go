// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package awserr has the errors that Nomad tells apart.
package awserr

// Error has a cause.
type Error interface {
	error
	OrigErr() error
}

// RequestFailure is the answer of a server.
type RequestFailure interface {
	Error
	StatusCode() int
}
