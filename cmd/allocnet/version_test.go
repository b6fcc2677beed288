// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/signed"
)

// TestVerifyUnsigned: a build without a signature is not taken for a release.
func TestVerifyUnsigned(t *testing.T) {
	for _, args := range [][]string{{"version", "--verify"}, {"version", "--verify", "--json"}} {
		if code, out, errs := runs(t, args...); code != 1 || out != "" || !strings.Contains(errs, "/usr/share/allocnet/programs.sha256") {
			t.Errorf("%v: code %d, %q, %q: want no version, and the list that is missing", args, code, out, errs)
		}
	}
}

func TestVerifiedVersion(t *testing.T) {
	v := ownVersion()
	v.Programs = []signed.Program{{Path: "/usr/bin/allocnet", State: "ok"}, {Path: "/opt/cni/bin/allocnet-cni", State: "changed"}}
	if got := v.String(); !strings.HasSuffix(got, "\nok: /usr/bin/allocnet\nchanged: /opt/cni/bin/allocnet-cni\n") {
		t.Errorf("%s", got)
	}
}
