// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"os"
	"path/filepath"
)

// DanglingLink returns the link that leads nowhere because of which a file is missing: in its place, or in that of a
// directory above. Empty: the file is not there, and nothing says that it was.
func DanglingLink(file string) string {
	for path := filepath.Clean(file); path != filepath.Dir(path); path = filepath.Dir(path) {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return path
		}
		return ""
	}
	return ""
}
