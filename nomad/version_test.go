// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import "testing"

func TestVersion(t *testing.T) {
	for text, test := range map[string]struct {
		want                    Version
		arguments, forge, check bool
	}{
		"1.6.2":          {want: Version{1, 6, 2}},
		"1.8.1":          {want: Version{1, 8, 1}},
		"v1.8.2":         {Version{1, 8, 2}, true, true, false},
		"1.9.3":          {Version{1, 9, 3}, true, true, false},
		"1.9.4+ent":      {Version{1, 9, 4}, true, false, false},
		"1.9.5":          {Version{1, 9, 5}, true, false, true},
		"1.10.0-beta.1":  {Version{1, 10, 0}, true, false, true},
		"2.0.5-dev+meta": {Version{2, 0, 5}, true, false, true},
	} {
		got, err := ParseVersion(text)
		if err != nil || got != test.want || got.Has(JobArguments) != test.arguments || got.JobsForgeIdentity() != test.forge || got.Has(Version{1, 9, 5}) != test.check {
			t.Errorf("%s: %v (%v), arguments %t, forge %t, CHECK %t", text, got, err, got.Has(JobArguments), got.JobsForgeIdentity(), got.Has(Version{1, 9, 5}))
		}
	}
	for _, text := range []string{"", "1.8", "1.8.x", "Nomad v1.8.4", "1.8.4.1", "99999.0.0"} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	if (Version{}).JobsForgeIdentity() {
		t.Error("an unknown version is taken for an old one")
	}
}
