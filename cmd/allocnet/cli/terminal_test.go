// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTerminal: a terminal tells its width, and NO_COLOR turns colours off.
func TestTerminal(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pty.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if got, want := TerminalOf(pty), (Terminal{defaultColumns, true}); got != want {
		t.Errorf("without a size: %+v, want %+v", got, want)
	}
	if err := unix.IoctlSetWinsize(int(pty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 132}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NO_COLOR", "1")
	if got, want := TerminalOf(pty), (Terminal{132, false}); got != want {
		t.Errorf("with NO_COLOR: %+v, want %+v", got, want)
	}
	if got := TerminalOf(&bytes.Buffer{}); got != (Terminal{}) {
		t.Errorf("no terminal: %+v", got)
	}
}
