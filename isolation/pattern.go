// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import "strings"

// fits tells whether a text fits a pattern, in which "*" is any text.
func fits(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return text == pattern
	}
	rest, found := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1 : len(parts)-1] {
		if !found {
			return false
		}
		_, rest, found = strings.Cut(rest, part)
	}
	return found && strings.HasSuffix(rest, parts[len(parts)-1])
}
