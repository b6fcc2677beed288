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
		return transientCode(own.Code) && !permanentText(own.Msg)
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

// permanentText knows the errors of the reference plugins that only the operator or the
// author of the job can correct: a master that does not exist, and a requested address
// that is out of range or leased. They have the code of all other errors.
func permanentText(msg string) bool {
	if msg == "Link not found" { // of a master; with other links, the text has more
		return true
	}
	for _, text := range []string{
		"failed to lookup master", "requested IP address", "requested ip", "failed to allocate all requested IPs",
	} {
		if strings.Contains(msg, text) {
			return true
		}
	}
	return false
}

// transientText knows the errors of which only the text arrives: the second
// attempt that libcni makes after "text file busy" fails with "exec: already started".
func transientText(text string) bool {
	return strings.Contains(text, "text file busy") || strings.Contains(text, "exec: already started")
}
