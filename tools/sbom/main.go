// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command sbom writes the SPDX bill of materials of a release: the modules that its
// programs were built from, as Go says in the programs, and their licenses. It has to
// run in the directory of their source, with the environment in which they were built.
//
// Usage: sbom NAME VERSION DIR PROGRAM...
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spdx/tools-golang/json"

	"github.com/allocnet/allocnet/tools/sbom/license"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 4 {
		return fmt.Errorf("got %d arguments: want NAME VERSION DIR PROGRAM...", len(args))
	}
	created, err := epoch()
	if err != nil {
		return err
	}
	sources, err := license.Modules(".", nil, "./cmd/...")
	if err != nil {
		return err
	}
	b := newBill(args[0], args[1], created, sources)
	for _, program := range args[3:] {
		if err := b.add(args[2], program); err != nil {
			return err
		}
	}
	return json.Write(b.document(), os.Stdout, json.Indent("  "))
}

// epoch is SOURCE_DATE_EPOCH, else now.
func epoch() (time.Time, error) {
	set := os.Getenv("SOURCE_DATE_EPOCH")
	if set == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(set, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0), nil
}
