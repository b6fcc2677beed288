// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package texts makes texts of lists and numbers.
package texts

import (
	"fmt"
	"strconv"
	"strings"
)

// Of returns the text of each item.
func Of[T fmt.Stringer](items []T) []string {
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = item.String()
	}
	return list
}

// Join returns the texts of the items with a separator between them.
func Join[T fmt.Stringer](items []T, separator string) string {
	return strings.Join(Of(items), separator)
}

// Counted is a number with what it counts, such as "2 networks". The noun is for one.
func Counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
