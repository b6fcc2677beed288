// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"regexp"
	"testing"
)

// TestIDForms: IDs have the forms that these expressions have.
func TestIDForms(t *testing.T) {
	for name, test := range map[string]struct {
		is          func(string) bool
		form, valid string
	}{
		"Nomad's":     {IsNomadID, `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, "3f1c2b9e-5f0b-4c55-9d3b-0123456789af"},
		"container's": {hasIDForm, `^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`, "aZ09_.-b"},
	} {
		form := regexp.MustCompile(test.form)
		texts := []string{test.valid, "", test.valid + "a", test.valid + "\n", test.valid[1:]}
		for i := range test.valid {
			for _, c := range []string{"-", "A", "Z", "g", "f", "0", "9", "_", ".", "/", ":", "@", "[", "`", "{", "\x00", "é", ""} {
				texts = append(texts, test.valid[:i]+c+test.valid[i+1:])
			}
		}
		for _, text := range texts {
			if got, want := test.is(text), form.MatchString(text); got != want {
				t.Errorf("%s: %q: %t, want %t", name, text, got, want)
			}
		}
	}
}

func TestNomadIndex(t *testing.T) {
	for name, want := range map[string]int{"web.api[0]": 0, "web.api[12]": 12, "a[1].b[2]": 2, "": -1, "web.api": -1, "web[": -1, "web[-1]": -1, "web[x]": -1, "web[1] ": -1} {
		if got, ok := NomadIndex(name); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %t, want %d", name, got, ok, want)
		}
	}
}
