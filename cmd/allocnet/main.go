// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command allocnet attaches network namespaces to CNI networks, shows their
// attachments, and removes them again.
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
