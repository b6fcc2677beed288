// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hosts

import (
	"regexp"
	"strings"
	"testing"
)

// hostName is what RFC 1123 has.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// TestNames: what is a label stays, and what is none gets a hash.
func TestNames(t *testing.T) {
	for _, test := range []struct {
		job     string
		index   int
		network string
		want    string // a regular expression
	}{
		{"web", 0, "storage", `web-0\.storage`},
		{"db-primary", 12, "net1", `db-primary-12\.net1`},
		{"10", 1, "a", `10-1\.a`},
		{strings.Repeat("a", 52), 2147483647, "n", `a{52}-2147483647\.n`},
		{strings.Repeat("a", 53), 0, "n", `a{34}--[0-9a-f]{16}-0\.n`},
		{"Web", 0, "storage", `web--[0-9a-f]{16}-0\.storage`},
		{"my job/périodique-1700000000", 0, "Storage_1", `my-job-p-riodique-1700000000--[0-9a-f]{16}-0\.storage-1--[0-9a-f]{16}`},
		{"web--0", 0, "a.b", `web-0--[0-9a-f]{16}-0\.a-b--[0-9a-f]{16}`},
		{"-", 0, "n", `x--[0-9a-f]{16}-0\.n`},
		{"日本", 0, "n", `x--[0-9a-f]{16}-0\.n`},
		{"", 0, "n", `x--[0-9a-f]{16}-0\.n`},
		{"a\n10.0.0.1 b", 0, "n", `a-10-0-0-1-b--[0-9a-f]{16}-0\.n`},
	} {
		got := nameOf(test.job, test.index, test.network)
		if !regexp.MustCompile("^" + test.want + "$").MatchString(got) {
			t.Errorf("%q, %d, %q: %s, want %s", test.job, test.index, test.network, got, test.want)
		}
	}
}

// FuzzName: a name is that of a host, whatever the author of a job chose, and two jobs have two, also where case does not count.
func FuzzName(f *testing.F) {
	for _, seed := range [][2]string{{"web", "Web"}, {"my.job", "my-job"}, {"web", "web-1"}, {"a b", "a--b"}, {"\x00", "\xff"}, {strings.Repeat("a", 60), strings.Repeat("a", 61)}} {
		f.Add(seed[0], seed[1], 1, 1)
	}
	f.Add("my.job", label("my.job"), 0, 0)
	f.Fuzz(func(t *testing.T, a, b string, first, second int) {
		first, second = first&0x7fffffff, second&0x7fffffff
		x, y := nameOf(a, first, "n"), nameOf(b, second, "n")
		if !hostName.MatchString(x) {
			t.Errorf("%q is %q", a, x)
		}
		if (a != b || first != second) && strings.EqualFold(x, y) {
			t.Errorf("%q, %d and %q, %d are both %q", a, first, b, second, x)
		}
	})
}
