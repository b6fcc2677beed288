// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package resolvconf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNormalize(t *testing.T) {
	for name, test := range map[string]struct {
		given, want Config
		dropped     []string
	}{
		"nothing": {},
		"as it is": {
			given: Config{Servers: []string{"192.0.2.1", "fe80::1%eth0"}, Domain: "a.example", Searches: []string{"b.example"}, Options: []string{"ndots:1", "rotate"}},
			want:  Config{Servers: []string{"192.0.2.1", "fe80::1%eth0"}, Domain: "a.example", Searches: []string{"b.example"}, Options: []string{"ndots:1", "rotate"}},
		},
		"duplicates": {
			given: Config{Servers: []string{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"}, Searches: []string{"a", "b", "a"}, Options: []string{"ndots:1", "ndots:2"}},
			want:  Config{Servers: []string{"192.0.2.1"}, Searches: []string{"a", "b"}, Options: []string{"ndots:1"}},
		},
		"more servers than a resolver asks": {
			given:   Config{Servers: []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.4"}},
			want:    Config{Servers: []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"}},
			dropped: []string{"192.0.2.4"},
		},
		"a domain is searched": {
			given: Config{Domain: "a.example"},
			want:  Config{Domain: "a.example", Searches: []string{"a.example"}},
		},
		"values that would be other lines": {
			given:   Config{Servers: []string{"ns.example", "192.0.2.1\nnameserver 192.0.2.2", "fe80::1%a b"}, Domain: "a b", Searches: []string{"a\noptions x", "b#"}, Options: []string{"a b", ""}},
			dropped: []string{"ns.example", "192.0.2.1\nnameserver 192.0.2.2", "fe80::1%a b", "a\noptions x", "b#", "a b", "", "a b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, dropped := test.given.Normalize()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.dropped, dropped); diff != "" {
				t.Errorf("dropped: %s", diff)
			}
			again, dropped := got.Normalize()
			if diff := cmp.Diff(got, again); diff != "" || len(dropped) > 0 {
				t.Errorf("normalized again: %s, dropped %q", diff, dropped)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	got := Merge(
		Config{Servers: []string{"192.0.2.1"}, Options: []string{"ndots:1"}},
		Config{Servers: []string{"192.0.2.2"}, Domain: "a.example", Options: []string{"ndots:2"}},
		Config{Domain: "b.example", Searches: []string{"c.example"}},
	)
	want := Config{
		Servers: []string{"192.0.2.1", "192.0.2.2"}, Domain: "a.example",
		Searches: []string{"a.example", "c.example"}, Options: []string{"ndots:1", "ndots:2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !Merge().IsEmpty() || got.IsEmpty() {
		t.Errorf("IsEmpty: %t, %t", Merge().IsEmpty(), got.IsEmpty())
	}
}
