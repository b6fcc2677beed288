// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// TokenError is a token file that cannot be read. No request was sent.
type TokenError struct{ Err error }

func (e *TokenError) Error() string { return fmt.Sprintf("nomad token: %v", e.Err) }

// Kind is that of package errdefs.
func (*TokenError) Kind() errdefs.Kind { return errdefs.Refused }

func (e *TokenError) Unwrap() error { return e.Err }

// Error is a request that failed.
type Error struct {
	// Address is the agent's.
	Address, Method, Path string
	// Status is that of HTTP. 0: there was no answer, and Err says why.
	Status int
	// Body is the answer's. It may be anything.
	Body []byte
	Err  error
}

func (e *Error) Error() string {
	what := fmt.Sprintf("nomad at %s: %s %s", e.Address, e.Method, e.Path)
	if e.Status == 0 {
		return fmt.Sprintf("%s: %v", what, e.Err)
	}
	return fmt.Sprintf("%s: status %d: %s", what, e.Status, printable(e.Body))
}

// Kind is that of package errdefs.
func (e *Error) Kind() errdefs.Kind {
	if e.Status == http.StatusForbidden || e.Status == http.StatusBadRequest {
		return errdefs.Refused
	}
	return errdefs.Unavailable
}

func (e *Error) Unwrap() error { return e.Err }

// failed is the error of a request without an answer. That of package http repeats the URL.
func (c *Client) failed(r Request, err error) error {
	if wrapper, ok := err.(*url.Error); ok { //nolint:errorlint // http.Client.Do returns it itself
		err = wrapper.Err
	}
	return &Error{Address: c.config.Address, Method: r.Method, Path: r.Path, Err: err}
}

// mostText of an answer is part of an error.
const mostText = 200

func printable(body []byte) string {
	text := strings.TrimSpace(string(body[:min(len(body), mostText)]))
	if text == "" || strings.ContainsFunc(text, notPrintable) {
		return "an answer that is no text"
	}
	return text
}

func notPrintable(r rune) bool { return r < ' ' || r >= 0x7f }
