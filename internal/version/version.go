// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package version has the version of allocnet.
package version

import (
	"runtime/debug"
	"strings"
)

// Version is the release, without a leading v.
const Version = "0.1.0"

// commit is set by the linker in a release, which has no other information of its
// source.
var commit string

// Commit returns the commit that this program was built from, with "-dirty" if there
// were changes since. Empty: it is not known.
func Commit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return commitOf(info.Settings)
}

// Build tells the programs of one build from all others.
func Build() string { return strings.TrimSpace(Version + " " + Commit()) }

func commitOf(settings []debug.BuildSetting) string {
	revision, dirty := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
