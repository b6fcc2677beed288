// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Codes of errors that no plugin gave. Those below 100 are the CNI
// specification's, section 5, "Error".
const (
	CodeUnsupported      = types.ErrUnsupportedField
	CodeUnknownContainer = types.ErrUnknownContainer
	CodeEnvironment      = types.ErrInvalidEnvironmentVariables
	CodeDecoding         = types.ErrDecodingFailure
	CodeInvalidConfig    = types.ErrInvalidNetworkConfig
	CodeTryAgainLater    = types.ErrTryAgainLater
	// CodeNoSuchRequest is a path or a method that the API does not have.
	CodeNoSuchRequest uint = 100
	// CodeConflict is a request that contradicts what exists.
	CodeConflict uint = 101
	// CodeForbidden is a caller, or a request, that is not allowed.
	CodeForbidden uint = 102
	// CodeFailed is a failure that has no code of its own.
	CodeFailed = types.ErrInternal
)

// Error is the body of every answer that is not a success: a CNI error.
type Error struct {
	CNIVersion string `json:"cniVersion"`
	Code       uint   `json:"code"`
	Msg        string `json:"msg"`
	Details    string `json:"details,omitempty"`
	// Status is the HTTP status.
	Status int `json:"-"`
}

func (e *Error) Error() string {
	if e.Details == "" {
		return fmt.Sprintf("%s (code %d)", e.Msg, e.Code)
	}
	return fmt.Sprintf("%s: %s (code %d)", e.Msg, e.Details, e.Code)
}

// Kind is the one that the status was made from; see answers.
func (e *Error) Kind() errdefs.Kind {
	for kind, answer := range answers {
		if answer.status == e.Status {
			return kind
		}
	}
	if e.Status >= http.StatusBadRequest && e.Status < http.StatusInternalServerError {
		return errdefs.Refused
	}
	return errdefs.Failed
}

// answers are what each kind of error becomes: the CNI code of allocnet-cni and
// of the agent, and the agent's HTTP status.
var answers = map[errdefs.Kind]struct {
	code   uint
	status int
}{
	errdefs.Failed:      {CodeFailed, http.StatusInternalServerError},
	errdefs.Timeout:     {CodeTryAgainLater, http.StatusGatewayTimeout},
	errdefs.Unavailable: {CodeTryAgainLater, http.StatusServiceUnavailable},
	errdefs.Conflict:    {CodeConflict, http.StatusConflict},
	errdefs.Refused:     {CodeInvalidConfig, http.StatusUnprocessableEntity},
	errdefs.NotFound:    {CodeUnknownContainer, http.StatusNotFound},
}

// CodeOf returns the CNI code of an error: the one that a plugin gave, else that
// of the error's kind.
func CodeOf(err error) uint {
	if plugin, ok := errors.AsType[*types.Error](err); ok {
		return plugin.Code
	}
	return answers[errdefs.Of(err)].code
}

// StatusOf returns the HTTP status of an error.
func StatusOf(err error) int { return answers[errdefs.Of(err)].status }
