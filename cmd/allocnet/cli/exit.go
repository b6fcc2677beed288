// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

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

// Exit codes; the help text of the root documents them.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitRefused  = 2
	ExitNotSetUp = 3
	// ExitDenied is of policy test.
	ExitDenied = 4
)

// ExitError is an error with an exit code. Without an error it is the exit code of a
// command, without a message.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Kind is Failed: the code is the exit code.
func (e *ExitError) Kind() errdefs.Kind { return errdefs.Failed }

// Usage is an error of the command line itself.
func Usage(err error) error { return errdefs.As(errdefs.Refused, err) }

// exitCodes has the exit code for each kind of error.
var exitCodes = map[errdefs.Kind]int{
	errdefs.Failed:      ExitFailed,
	errdefs.Timeout:     ExitFailed,
	errdefs.Unavailable: ExitFailed,
	errdefs.Conflict:    ExitRefused,
	errdefs.Refused:     ExitRefused,
	errdefs.NotFound:    ExitNotSetUp,
}

type errorJSON struct {
	// Code is the exit code.
	Code  int    `json:"code"`
	Error string `json:"error"`
}

func report(stderr io.Writer, err error, asJSON bool) int {
	if err == nil {
		return ExitDone
	}
	code := ExitCode(err)
	if exit, ok := errors.AsType[*ExitError](err); ok && exit.Err == nil {
		return code
	}
	switch {
	case os.Geteuid() != 0 && errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: run as root", err)
		if code == ExitFailed && RequireRoot() != nil { // what could change anything was refused before
			code = ExitRefused
		}
	case errors.Is(err, client.ErrUnavailable) && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED)):
		err = fmt.Errorf("%w: start it (systemctl start allocnet.service), or name its socket (--socket)", err)
	}
	if asJSON {
		_ = json.NewEncoder(stderr).Encode(errorJSON{code, err.Error()}) // there is no other output
	} else {
		PrintError(stderr, err.Error())
	}
	return code
}

// PrintError prints each line, escaped, with the name of the program.
func PrintError(stderr io.Writer, text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			_, _ = fmt.Fprintf(stderr, "allocnet: %s\n", Printable(line)) // there is no other output
		}
	}
}

// ExitCode returns the exit code of an error.
func ExitCode(err error) int {
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	return exitCodes[errdefs.Of(err)]
}

// Unhealthy fails a command that has shown why.
func Unhealthy(healthy bool) error {
	if healthy {
		return nil
	}
	return &ExitError{Code: ExitFailed}
}
