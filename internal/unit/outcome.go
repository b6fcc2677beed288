// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package unit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

const (
	// OutcomeDir is writable for root only, since root writes to the file.
	OutcomeDir    = "/run"
	outcomePrefix = "allocnet-unit-"
	// signalled is added to the number of a signal that killed a command.
	signalled = 128
)

// Outcome is a file into which a unit writes the exit status of its command:
// systemd forgets a unit that has ended, and has the status in the environment of
// ExecStopPost= only (systemd.exec(5), $EXIT_CODE). The reading process holds a lock
// on the file until it ends.
type Outcome struct{ file *os.File }

// NewOutcome creates the file.
func NewOutcome(dir string) (Outcome, error) {
	for {
		file, err := os.CreateTemp(dir, outcomePrefix)
		if err != nil {
			return Outcome{}, fmt.Errorf("file for the outcome of the unit: %w", err)
		}
		if lockOutcome(file) {
			return Outcome{file}, nil
		}
		_ = file.Close() // removed before it was locked, as abandoned
	}
}

// lockOutcome locks a file, unless a process has it locked or its name is gone.
func lockOutcome(file *os.File) bool {
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false
	}
	is, err := files.IsAt(file, file.Name())
	return is && err == nil
}

// Remove removes the file, and releases its lock.
func (o Outcome) Remove() {
	_ = os.Remove(o.file.Name()) // empty or read
	files.CloseLocked(o.file)
}

// RemoveAbandonedOutcomes removes the files whose process was killed.
func RemoveAbandonedOutcomes(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, outcomePrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range paths {
		file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("file for the outcome of a unit: %w", err))
			continue
		}
		if lockOutcome(file) {
			errs = append(errs, os.Remove(path))
		}
		files.CloseLocked(file)
	}
	return errors.Join(errs...)
}

// StopPost is a line of ExecStopPost that writes the file if it is still there,
// with all rights. What comes after it runs even where it fails.
func (o Outcome) StopPost() string {
	return "-+/bin/sh -c 'test -e \"$$0\" && echo \"$$SERVICE_RESULT $$EXIT_CODE $$EXIT_STATUS\" >\"$$0\"' " + strconv.Quote(o.file.Name())
}

// ExitCode is that of the command, as run has it, and 0 where the unit's properties
// call that a success (SuccessExitStatus=); false when the command has not ended, so
// that the unit was never started or goes on.
func (o Outcome) ExitCode() (code int, ended bool) {
	text, err := os.ReadFile(o.file.Name())
	if err != nil {
		return 0, false
	}
	return parseOutcome(string(text))
}

// parseOutcome reads "success exited 0", "exit-code exited 7" and "signal killed
// KILL".
func parseOutcome(text string) (code int, ended bool) {
	words := strings.Fields(text)
	if len(words) != 3 {
		return 0, false
	}
	switch status := words[2]; words[1] {
	case "exited":
		number, err := strconv.Atoi(status)
		code, ended = number, err == nil
	case "killed", "dumped":
		signal := unix.SignalNum("SIG" + status)
		code, ended = signalled+int(signal), signal != 0
	}
	if !ended || words[0] == "success" {
		code = 0
	}
	return code, ended
}
