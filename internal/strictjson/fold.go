// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package strictjson

import (
	"strings"
	"unicode"
)

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
