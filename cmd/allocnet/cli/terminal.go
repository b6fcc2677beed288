// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// defaultColumns is the width of a terminal that does not tell its own.
const defaultColumns = 80

// Terminal is what output is printed on. The zero value is a pipe or a file.
type Terminal struct {
	// Columns is 0 without a terminal.
	Columns int
	Colours bool
}

// TerminalOf returns the terminal that a command writes to, if it is one.
func TerminalOf(w io.Writer) Terminal {
	file, ok := w.(*os.File)
	if !ok || !IsTerminal(file) {
		return Terminal{}
	}
	t := Terminal{Columns: defaultColumns, Colours: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		t.Columns = int(size.Col)
	}
	return t
}

// IsTerminal tells whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// clear has a terminal show what follows from its first line on.
const clear = "\x1b[H\x1b[2J"
