// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// deadlineError is the error of a request that exceeds Config.RequestTimeout.
func deadlineError(limit time.Duration) error {
	return errdefs.New(errdefs.Timeout, fmt.Sprintf("the request took longer than %s", limit))
}

// errorOf returns the answer to a client for an error.
func errorOf(err error) *api.Error {
	answer := api.Error{Code: api.CodeOf(err), Msg: err.Error(), Status: api.StatusOf(err)}
	if ready, ok := errors.AsType[*api.Error](err); ok {
		answer = *ready
	}
	answer.CNIVersion = "1.1.0"
	return &answer
}

func isType[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func noSuchRequest(status int, reason string) error {
	return &api.Error{Code: api.CodeNoSuchRequest, Msg: "no such request", Details: reason, Status: status}
}

// decodingFailure is the error of an invalid body; errors of a selection are passed on.
func decodingFailure(err error) error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &api.Error{
			Code: api.CodeDecoding, Msg: "the body is too large", Status: http.StatusRequestEntityTooLarge,
			Details: fmt.Sprintf("want at most %d bytes", tooLarge.Limit),
		}
	}
	if isType[*selection.Error](err) {
		return err
	}
	return &api.Error{Code: api.CodeDecoding, Msg: "the body cannot be read", Details: err.Error(), Status: http.StatusBadRequest}
}

func unsupported(reason string) error {
	return &api.Error{Code: api.CodeUnsupported, Msg: "not supported", Details: reason, Status: http.StatusNotImplemented}
}
