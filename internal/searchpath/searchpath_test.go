// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package searchpath

import (
	"os"
	"slices"
	"testing"
)

func TestCompleteOwn(t *testing.T) {
	t.Setenv("PATH", "/opt/bin")
	if err := CompleteOwn(); err != nil || os.Getenv("PATH") != "/opt/bin:"+System {
		t.Errorf("PATH is %s, %v", os.Getenv("PATH"), err)
	}
}

func TestComplete(t *testing.T) {
	for name, test := range map[string]struct{ environ, want []string }{
		"none":     {[]string{"A=b"}, []string{"A=b", "PATH=" + System}},
		"complete": {[]string{"PATH=" + System, "A=b"}, []string{"A=b", "PATH=" + System}},
		"own directories first": {
			[]string{"PATH=/opt/bin:/usr/sbin"},
			[]string{"PATH=/opt/bin:/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin:/sbin:/bin"},
		},
	} {
		if got := Complete(test.environ); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
