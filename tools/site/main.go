// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command site makes the static web site of allocnet's documents: a page for each of them, one for each message of their
// tables, and a search that needs no server. It fails for a link that leads nowhere.
//
// Usage: site ROOT OUTPUT
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintf(os.Stderr, "site: got %d arguments: want ROOT OUTPUT\n", len(os.Args)-1)
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// run makes the site of a checkout in a directory, which it replaces.
func run(root, out string) error {
	s, err := read(root)
	if err != nil {
		return err
	}
	if err := errors.Join(s.brokenLinks()...); err != nil {
		return err
	}
	return s.write(out)
}
