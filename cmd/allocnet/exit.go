// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/errdefs"
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

// exitError is an error with an exit code. Without an error it is the exit code of a
// command, without a message.
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

// Kind is Failed: the code is the exit code.
func (e *exitError) Kind() errdefs.Kind { return errdefs.Failed }

// usage is an error of the command line itself.
func usage(err error) error { return errdefs.As(errdefs.Refused, err) }

// exitCodes has the exit code for each kind of error.
var exitCodes = map[errdefs.Kind]int{
	errdefs.Failed:      exitFailed,
	errdefs.Timeout:     exitFailed,
	errdefs.Unavailable: exitFailed,
	errdefs.Conflict:    exitRefused,
	errdefs.Refused:     exitRefused,
	errdefs.NotFound:    exitNotSetUp,
}

// errorJSON is an error as --json prints it.
type errorJSON struct {
	// Code is the exit code.
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// report prints an error and returns the exit code.
func report(stderr io.Writer, err error, asJSON bool) int {
	if err == nil {
		return exitDone
	}
	code := exitCode(err)
	if exit, ok := errors.AsType[*exitError](err); ok && exit.err == nil {
		return code
	}
	switch {
	case os.Geteuid() != 0 && errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: run as root", err)
		if code == exitFailed && requireRoot() != nil { // what could change anything was refused before
			code = exitRefused
		}
	case errors.Is(err, client.ErrUnavailable) && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED)):
		err = fmt.Errorf("%w: start it (systemctl start allocnet.service), or name its socket (--socket)", err)
	}
	if asJSON {
		_ = json.NewEncoder(stderr).Encode(errorJSON{code, err.Error()}) // there is no other output
	} else {
		printError(stderr, err.Error())
	}
	return code
}

// printError prints each line, escaped, with the name of the program.
func printError(stderr io.Writer, text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			_, _ = fmt.Fprintf(stderr, "allocnet: %s\n", printable(line)) // there is no other output
		}
	}
}

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	return exitCodes[errdefs.Of(err)]
}

// runFailure is the error of a command that executes another, before it has started:
// a refused request keeps its exit code, other errors have one that commands seldom
// have.
func runFailure(err error) error {
	if exitCode(err) == exitRefused {
		return err
	}
	return &exitError{exitRunFailed, err}
}
