// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/version"
)

// anyProgram tells whether a directory has an executable file.
func anyProgram(dirs []string) bool {
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // a missing directory has none
		for _, entry := range entries {
			info, err := os.Stat(filepath.Join(dir, entry.Name()))
			if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
				return true
			}
		}
	}
	return false
}

const versionTimeout = 10 * time.Second

// ownVersion is part of what allocnet-cni prints without CNI_COMMAND.
var ownVersion = regexp.MustCompile(`CNI ` + cniconf.OwnPlugin + ` plugin v(\S+)`)

// versionSkew reports an allocnet-cni of another release than this program: both read and
// write the same records.
func versionSkew(ctx context.Context, r *Report, dirs []string) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	for _, dir := range dirs {
		path := filepath.Join(dir, cniconf.OwnPlugin)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, path)
		cmd.Env = []string{} // without CNI_COMMAND
		output, err := cmd.CombinedOutput()
		found := ownVersion.FindSubmatch(output)
		switch {
		case found == nil:
			r.addError(path, fmt.Sprintf("does not say its version (%v): %.200s", err, output), "install both programs from one release")
		case string(found[1]) != version.Version:
			r.addWarning(path, fmt.Sprintf("has version %s, and this program %s", found[1], version.Version), "install both programs from one release")
		}
	}
}
