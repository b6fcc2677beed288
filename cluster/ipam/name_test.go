// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"regexp"
	"strings"
	"testing"
)

// TestNames: names of pools and instances have the forms that these expressions have.
func TestNames(t *testing.T) {
	hex := strings.Repeat("0123456789abcdef", 2)
	for name, test := range map[string]struct {
		is    func(string) bool
		form  string
		valid []string
	}{
		"pool":     {isPoolName, `^[a-z0-9][a-z0-9-]{0,62}$`, []string{"a", "0", "vlan100", "a-", strings.Repeat("a", 63)}},
		"instance": {IsInstance, `^[0-9a-f]{32}$`, []string{hex}},
	} {
		form := regexp.MustCompile(test.form)
		for _, valid := range test.valid {
			texts := []string{valid, "", valid + "a", valid + "\n", valid[1:]}
			for i := range valid {
				for _, c := range []string{"-", "A", "g", "z", "0", "9", "/", ":", "`", "{", ".", "\x00", "é", ""} {
					texts = append(texts, valid[:i]+c+valid[i+1:])
				}
			}
			for _, text := range texts {
				if got, want := test.is(text), form.MatchString(text); got != want {
					t.Errorf("%s: %q: %t, want %t", name, text, got, want)
				}
			}
		}
	}
}
