// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
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
	// CodeConflict is a set-up that contradicts what stands.
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
