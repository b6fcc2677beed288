// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/internal/termtext"
)

// printable returns a text in one line, without what a terminal would act on.
func printable(s string) string { return termtext.Printable(s) }

// wrap breaks a text into lines of a width: at spaces, and within words that are longer.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		runes := []rune(word)
		for len(runes) > width {
			lines = append(lines, string(runes[:width]))
			runes = runes[width:]
		}
		line = string(runes)
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
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
