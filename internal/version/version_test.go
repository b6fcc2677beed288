// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package version

import (
	"runtime/debug"
	"testing"
)

func TestCommit(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}
	for want, settings := range map[string][]debug.BuildSetting{
		"":          {{Key: "vcs.modified", Value: "true"}},
		"abc":       {revision, {Key: "vcs.modified", Value: "false"}},
		"abc-dirty": {{Key: "vcs.modified", Value: "true"}, revision},
	} {
		if got := commitOf(settings); got != want {
			t.Errorf("%v: %q, want %q", settings, got, want)
		}
	}
	commit = "of the linker"
	defer func() { commit = "" }()
	if got := Commit(); got != commit {
		t.Errorf("%q, want %q", got, commit)
	}
}
