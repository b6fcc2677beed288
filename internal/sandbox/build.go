// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
)

// Build builds programs as they are released, from their folders in the module
// such as cmd/allocnet: one into the file path, several into the directory.
func Build(path string, folders ...string) error {
	return build([]string{"CGO_ENABLED=0"}, []string{"-trimpath", "-ldflags", "-s -w", "-o", path}, folders)
}

// BuildRaced is Build with the race detector.
func BuildRaced(path string, folders ...string) error {
	return build(nil, []string{"-race", "-o", path}, folders)
}

func build(env, flags, folders []string) error {
	for _, folder := range folders {
		flags = append(flags, "./"+folder)
	}
	cmd := exec.Command("go", append([]string{"build"}, flags...)...)
	cmd.Dir, cmd.Env = Root(), append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w: %s", folders, err, out)
	}
	return nil
}
