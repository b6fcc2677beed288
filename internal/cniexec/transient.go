// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"context"
	"errors"
	"os/exec"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"
)

// Transient tells whether a failed ADD may succeed when repeated. Deadlines
// are not: a plugin that hung for a minute would keep its caller for three.
func Transient(err error) bool {
	var timeout *TimeoutError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) {
		return false
	}
	var own *types.Error
	if errors.As(err, &own) {
		return transientCode(own.Code)
	}
	var died *ExecError
	if errors.As(err, &died) {
		var exit *exec.ExitError
		return errors.As(err, &exit) || errors.Is(err, unix.ETXTBSY)
	}
	return transientText(err.Error())
}

// transientCode sorts the codes of the CNI specification 1.1, "Error". Code 0
// is a plugin that gave none.
func transientCode(code uint) bool {
	switch code {
	case 0, types.ErrIOFailure, types.ErrTryAgainLater, types.ErrPluginNotAvailable, types.ErrLimitedConnectivity:
		return true
	}
	return code >= 100
}

// transientText knows the errors of which only the text arrives: the second
// attempt that libcni makes after "text file busy" fails with "exec: already started".
func transientText(text string) bool {
	return strings.Contains(text, "text file busy") || strings.Contains(text, "exec: already started")
}
