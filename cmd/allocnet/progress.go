// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/allocnet/allocnet/hook"
)

// quietTime is for how long a command that attaches prints nothing.
const quietTime = 2 * time.Second

// reported returns what attach does, and prints meanwhile what it waits for if that takes long.
// With --json it does not: there, stderr has an error as JSON, and nothing else.
func (s *settings) reported(stderr io.Writer, r hook.Request, attach func() (*hook.Allocation, error)) (*hook.Allocation, error) {
	if s.json {
		return attach()
	}
	done := make(chan struct{})
	timer := time.AfterFunc(quietTime, func() {
		defer close(done)
		printError(stderr, fmt.Sprintf("%s: waiting for the plugins of %s", r.ID, strings.Join(networkNames(r), ", ")))
	})
	a, err := attach()
	if !timer.Stop() {
		<-done // so that the error comes last
	}
	return a, err
}

func networkNames(r hook.Request) []string {
	var names []string
	if r.Primary != nil {
		names = append(names, r.Primary.Name)
	}
	for _, n := range r.Networks {
		names = append(names, n.Name)
	}
	return names
}
