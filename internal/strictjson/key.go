// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package strictjson

import (
	"strings"
	"unicode"

	"github.com/agext/levenshtein"
)

// Similar returns the known key that a key is a misspelling of; empty if it is none.
func Similar(key string, known []string) string {
	best, meant := 3, "" // two letters may be wrong
	for _, candidate := range known {
		d := levenshtein.Distance(strings.ToLower(key), strings.ToLower(candidate), nil)
		if d < best && d < len(candidate)/2 {
			best, meant = d, candidate
		}
	}
	return meant
}

// Fold returns a key as encoding/json compares it with those of a struct: "ips", "IPs" and "ip\u017f", which ends with
// the long s of Unicode, are one.
func Fold(key string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, key)
}
