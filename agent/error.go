// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// deadlineError is work that took longer than Config.RequestTimeout.
type deadlineError struct{ limit time.Duration }

func (e *deadlineError) Error() string {
	return fmt.Sprintf("the request took longer than %s", e.limit)
}

// errorOf turns an error into what a client gets. A code that a plugin gave is
// kept.
func errorOf(err error) *api.Error {
	var ready *api.Error
	if !errors.As(err, &ready) {
		ready = classify(err)
	}
	answer := *ready
	answer.CNIVersion = "1.1.0"
	return &answer
}

func classify(err error) *api.Error {
	failure := &api.Error{Code: api.CodeFailed, Msg: err.Error(), Status: http.StatusInternalServerError}
	var plugin *types.Error
	var deadline *deadlineError
	switch {
	case errors.As(err, &deadline):
		failure.Status = http.StatusGatewayTimeout
	case errors.Is(err, context.Canceled):
		failure.Code, failure.Status = api.CodeTryAgainLater, http.StatusServiceUnavailable
	case errors.As(err, &plugin):
		failure.Code = plugin.Code
	case isType[*hook.Error](err):
	case errors.Is(err, state.ErrNotFound):
		failure.Code, failure.Status = api.CodeUnknownContainer, http.StatusNotFound
	case errors.Is(err, hook.ErrConflict), errors.Is(err, netns.ErrExists), isType[*hook.InterfaceExistsError](err), isType[*hook.PortInUseError](err):
		failure.Code, failure.Status = api.CodeConflict, http.StatusConflict
	case isType[*state.InvalidIDError](err), errors.Is(err, netns.ErrMissing):
		failure.Code, failure.Status = api.CodeEnvironment, http.StatusUnprocessableEntity
	case refused(err):
		failure.Code, failure.Status = api.CodeInvalidConfig, http.StatusUnprocessableEntity
	}
	return failure
}

// refused tells whether a request cannot be met as it is.
func refused(err error) bool {
	return isType[*policy.DeniedError](err) || isType[*hook.RequestError](err) || isType[*selection.Error](err) || isType[*selection.UnsupportedError](err) ||
		isType[*cniconf.NotFoundError](err) || isType[*cniconf.MissingPluginError](err) || isType[*cniconf.NoMTUError](err) ||
		isType[*portmap.InvalidPortError](err) || isType[*portmap.ConflictError](err) || isType[*portmap.UnknownLabelError](err)
}

func isType[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func noSuchRequest(status int, why string) error {
	return &api.Error{Code: api.CodeNoSuchRequest, Msg: "no such request", Details: why, Status: status}
}

// decodingFailure is a body that cannot be read; a selection says itself what
// is wrong.
func decodingFailure(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
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

func unsupported(why string) error {
	return &api.Error{Code: api.CodeUnsupported, Msg: "not supported", Details: why, Status: http.StatusNotImplemented}
}
