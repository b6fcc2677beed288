// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// defaultColumns is the width of a terminal that does not tell its own.
const defaultColumns = 80

// terminal is what output is printed on. The zero value is a pipe or a file.
type terminal struct {
	// columns is 0 without a terminal.
	columns int
	colours bool
}

func terminalOf(w io.Writer) terminal {
	file, ok := w.(*os.File)
	if !ok || !isTerminal(file) {
		return terminal{}
	}
	t := terminal{columns: defaultColumns, colours: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		t.columns = int(size.Col)
	}
	return t
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// clear has a terminal show what follows from its first line on.
const clear = "\x1b[H\x1b[2J"
