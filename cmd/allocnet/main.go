// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command allocnet attaches network namespaces to CNI networks, shows their attachments, and
// removes them again.
//
// A command is a file of its own, whose constructor root.go adds; those on what hosts share are in
// package cluster. Package cli has what commands share. Flags are read from the environment without
// further code. Errors have a kind of package errdefs, from which cli/exit.go makes the exit code. A
// command that shows something returns a cli.View, which has its table, --json and --template; a
// table is a cli.Table. Package manual writes the man pages from the help. A new command is also in
// the list of e2e/docs_test.go, which runs the examples of its help, and in the table of docs/commands.md.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/allocnet/allocnet/internal/searchpath"
)

func main() {
	if err := searchpath.CompleteOwn(); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "allocnet: PATH: %v\n", err)
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
