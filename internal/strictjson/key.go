// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package strictjson

import (
	"strings"
	"unicode"
)

// Similar returns the known key that a key is a misspelling of; empty if it is none.
func Similar(key string, known []string) string {
	best, meant := 3, "" // two letters may be wrong
	for _, candidate := range known {
		d := distance(strings.ToLower(key), strings.ToLower(candidate))
		if d < best && d < len(candidate)/2 {
			best, meant = d, candidate
		}
	}
	return meant
}

// distance is the number of bytes to insert, to remove or to replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
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
