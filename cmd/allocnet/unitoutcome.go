// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unitOutcome is a file into which a unit writes how its command ended: systemd
// forgets a unit that has ended, and says it to what runs after the command
// (systemd.exec(5), $EXIT_CODE).
type unitOutcome struct{ path string }

// newUnitOutcome makes the file in a directory that only root can write to, since
// root will write to that path.
func newUnitOutcome(dir string) (unitOutcome, error) {
	file, err := os.CreateTemp(dir, "allocnet-unit-")
	if err != nil {
		return unitOutcome{}, fmt.Errorf("file for the outcome of the unit: %w", err)
	}
	return unitOutcome{file.Name()}, file.Close()
}

func (o unitOutcome) remove() { _ = os.Remove(o.path) } // empty or read

// stopPost is a line of ExecStopPost that writes the file if it is still there,
// with all rights. What comes after it runs even where it fails.
func (o unitOutcome) stopPost() string {
	return "-+/bin/sh -c 'test -e \"$$0\" && echo \"$$EXIT_CODE $$EXIT_STATUS\" >\"$$0\"' " + strconv.Quote(o.path)
}

// exitCode is that of the command, as run has it; false when the command has not
// ended, so that the unit was never started or goes on.
func (o unitOutcome) exitCode() (code int, ended bool) {
	text, err := os.ReadFile(o.path)
	if err != nil {
		return 0, false
	}
	return parseOutcome(string(text))
}

// parseOutcome reads "exited 7" and "killed TERM".
func parseOutcome(text string) (code int, ended bool) {
	how, status, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch how {
	case "exited":
		code, err := strconv.Atoi(status)
		return code, err == nil
	case "killed", "dumped":
		signal := unix.SignalNum("SIG" + status)
		return exitSignalled + int(signal), signal != 0
	}
	return 0, false
}
