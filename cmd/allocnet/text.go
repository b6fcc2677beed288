// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/internal/termtext"
)

// printable returns a text in one line, without what a terminal would act on.
func printable(s string) string { return termtext.Printable(s) }

// wrap breaks a text into lines of a width: at spaces, and within words that are longer.
func wrap(s string, width int) []string {
	if lines := termtext.Fill(strings.Fields(s), " ", width); len(lines) > 0 {
		return lines
	}
	return []string{""}
}

// networksOf names the networks of an event, with the interface of an attachment, or its pool.
func networksOf(e event.Event) string {
	if e.Pool != "" {
		return "pool " + e.Pool
	}
	s := strings.Join(e.Networks, ",")
	if e.Interface != "" {
		s += " " + e.Interface
	}
	return s
}

// took prints a duration in at most 6 characters.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}
