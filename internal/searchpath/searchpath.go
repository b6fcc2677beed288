// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package searchpath completes PATH with the directories of the host's programs.
package searchpath

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// System is a PATH of the directories that have the programs of every
// distribution, iptables and nft among them.
const System = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Complete returns an environment whose PATH ends with those directories of System
// that it lacks: a caller without the sbin directories must not keep a plugin from
// its programs.
func Complete(environ []string) []string {
	var dirs []string
	for _, pair := range environ {
		if path, ok := strings.CutPrefix(pair, "PATH="); ok { // the last one counts
			dirs = filepath.SplitList(path)
		}
	}
	for _, dir := range filepath.SplitList(System) {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	others := slices.DeleteFunc(slices.Clone(environ), func(pair string) bool { return strings.HasPrefix(pair, "PATH=") })
	return append(others, "PATH="+strings.Join(dirs, string(filepath.ListSeparator)))
}

// CompleteOwn completes the PATH of this process, for the programs that it looks
// for and runs itself.
func CompleteOwn() error {
	completed := Complete(os.Environ())
	path, _ := strings.CutPrefix(completed[len(completed)-1], "PATH=")
	return os.Setenv("PATH", path)
}
