// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadagent

import (
	"os"
	"path/filepath"
	"regexp"
)

var busy = regexp.MustCompile(`failed to unmount NS: at (/[^ :]+): device or resource busy`)

// Busy returns the names of the namespaces that Nomad, by its log, could not unmount, and leaves for good: up to
// 1.10.0 it does that to one whose path another process is looking at in that instant.
func Busy(log string) (names []string) {
	text, _ := os.ReadFile(log) // Nomad may not have begun
	for _, match := range busy.FindAllSubmatch(text, -1) {
		names = append(names, filepath.Base(string(match[1])))
	}
	return names
}
