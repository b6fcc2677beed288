// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// Exit codes; the help texts of the root and of run document them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitRefused  = 2
	exitNotSetUp = 3

	// Those of run, as env(1), nice(1) and container engines have them.
	exitRunFailed      = 125
	exitNotExecutable  = 126
	exitCommandMissing = 127
	exitSignalled      = 128 // plus the number of the signal
)

// exitError is an error that decides the exit code. Without an error it is the
// code of a command, about which there is nothing to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{exitRefused, err} }

// report prints an error and returns the exit code.
func report(stderr io.Writer, err error, asJSON bool) int {
	if err == nil {
		return exitDone
	}
	code := exitCode(err)
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return code
	}
	if asJSON {
		_ = json.NewEncoder(stderr).Encode(map[string]any{"error": err.Error(), "code": code}) // nobody to tell
	} else {
		for line := range strings.Lines(err.Error()) {
			if line = strings.TrimSpace(line); line != "" {
				_, _ = fmt.Fprintf(stderr, "allocnet: %s\n", line) // nobody to tell
			}
		}
	}
	return code
}

func exitCode(err error) int {
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, state.ErrNotFound):
		return exitNotSetUp
	case refused(err):
		return exitRefused
	}
	return exitFailed
}

// refused tells whether a request was turned down before anything was done.
func refused(err error) bool {
	if isType[*hook.Error](err) {
		return false
	}
	return isType[*hook.RequestError](err) || isType[*hook.InterfaceExistsError](err) || isType[*hook.PortInUseError](err) || isType[*hook.NotAttachedError](err) ||
		isType[*selection.Error](err) || isType[*selection.UnsupportedError](err) ||
		isType[*cniconf.NotFoundError](err) || isType[*cniconf.MissingPluginError](err) || isType[*cniconf.NoMTUError](err) ||
		isType[*portmap.InvalidPortError](err) || isType[*portmap.ConflictError](err) || isType[*portmap.UnknownLabelError](err) ||
		isType[*policy.DeniedError](err) || isType[*state.InvalidIDError](err) || errors.Is(err, hook.ErrConflict) || errors.Is(err, cniconf.ErrNoDir) ||
		strings.HasPrefix(err.Error(), "unknown command")
}

func isType[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}
