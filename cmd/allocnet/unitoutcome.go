// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/flock"
)

const (
	// outcomeDir is writable for root alone, since root will write to the file.
	outcomeDir    = "/run"
	outcomePrefix = "allocnet-unit-"
)

// unitOutcome is a file into which a unit writes how its command ended: systemd
// forgets a unit that has ended, and says it to what runs after the command
// (systemd.exec(5), $EXIT_CODE). It is locked as long as the process runs that
// reads it.
type unitOutcome struct{ file *os.File }

// newUnitOutcome makes the file.
func newUnitOutcome(dir string) (unitOutcome, error) {
	for {
		file, err := os.CreateTemp(dir, outcomePrefix)
		if err != nil {
			return unitOutcome{}, fmt.Errorf("file for the outcome of the unit: %w", err)
		}
		if lockOutcome(file) {
			return unitOutcome{file}, nil
		}
		_ = file.Close() // removed before it was locked, as abandoned
	}
}

// lockOutcome locks a file, unless a process has it locked or its name is gone.
func lockOutcome(file *os.File) bool {
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false
	}
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(opened, named)
}

func (o unitOutcome) remove() {
	_ = os.Remove(o.file.Name()) // empty or read
	flock.Close(o.file)
}

// removeAbandonedOutcomes removes the files whose process was killed.
func removeAbandonedOutcomes(dir string) error {
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
		flock.Close(file)
	}
	return errors.Join(errs...)
}

// outcomeCollector also removes the files of killed processes.
type outcomeCollector struct {
	agent.Collector
	dir string
}

// GC is that of agent.Collector.
func (c outcomeCollector) GC(ctx context.Context, live func(id string) bool, networks ...string) (*hook.Collected, error) {
	collected, err := c.Collector.GC(ctx, live, networks...)
	return collected, errors.Join(err, removeAbandonedOutcomes(c.dir))
}

// stopPost is a line of ExecStopPost that writes the file if it is still there,
// with all rights. What comes after it runs even where it fails.
func (o unitOutcome) stopPost() string {
	return "-+/bin/sh -c 'test -e \"$$0\" && echo \"$$SERVICE_RESULT $$EXIT_CODE $$EXIT_STATUS\" >\"$$0\"' " + strconv.Quote(o.file.Name())
}

// exitCode is that of the command, as run has it, and 0 where the unit's properties
// call that a success (SuccessExitStatus=); false when the command has not ended, so
// that the unit was never started or goes on.
func (o unitOutcome) exitCode() (code int, ended bool) {
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
		code, ended = exitSignalled+int(signal), signal != 0
	}
	if !ended || words[0] == "success" {
		code = 0
	}
	return code, ended
}
