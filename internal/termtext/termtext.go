// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package termtext makes texts of others safe for a terminal, and measures them.
package termtext

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Printable returns a text in one line, without what a terminal would act on: plugins and
// authors of jobs choose parts of names and errors.
func Printable(s string) string {
	s = strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "; ") // joined errors
	if strings.IndexFunc(s, Unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, string(utf8.RuneError)) {
		if Unprintable(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Unprintable tells whether a terminal could act on a character, or show it as another one.
func Unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Width returns the number of columns of a printable text: characters of East Asian scripts
// have two, and marks that combine with others none.
func Width(s string) int {
	columns := 0
	for _, r := range s {
		columns += runeWidth(r)
	}
	return columns
}

func runeWidth(r rune) int {
	if r < utf8.RuneSelf {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// Cut returns a text of at most so many columns: what is left out is replaced by the mark.
func Cut(s string, columns int, mark string) string {
	if Width(s) <= columns {
		return s
	}
	kept, _ := split(s, max(0, columns-Width(mark)))
	return kept + mark
}

// split returns as much of a text as fits into the columns, and the rest.
func split(s string, columns int) (fits, rest string) {
	used := 0
	for i, r := range s {
		if used += runeWidth(r); used > columns {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

// Fill distributes words over lines of so many columns, which are 2 at least; 0 is one line.
// Longer words are broken.
func Fill(words []string, gap string, columns int) []string {
	var lines []string
	line := ""
	for _, word := range words {
		if line != "" && columns > 0 && Width(line)+Width(gap)+Width(word) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += gap
		}
		line += word
		for columns > 0 && Width(line) > columns {
			var fits string
			fits, line = split(line, max(2, columns))
			lines = append(lines, fits)
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
