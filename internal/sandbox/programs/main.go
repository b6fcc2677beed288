// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command programs builds the programs under test into build/programs, and prints their hash, which
// the tests of e2e read from ALLOCNET_PROGRAMS.
package main

import (
	"fmt"
	"os"

	"github.com/allocnet/allocnet/internal/sandbox"
)

func main() {
	hash, err := sandbox.BuildPrograms()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(hash)
}
