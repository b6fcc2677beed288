// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/containernetworking/cni/pkg/version"
)

var pluginVersion = regexp.MustCompile(`\bv?(\d+\.\d+\.\d+)\b`)

// callsCheck reports whether the client calls CHECK when it restarts: the plugin bridge, which no
// network needs to have, says a version of 1.3.0 or later (v1.9.5 network_hook.go:186-209;
// plugins_cni.go:88-129).
func callsCheck(c Config) bool {
	if !c.Version.Has(CheckOnRestart) {
		return false
	}
	for _, dir := range c.PluginDirs {
		path := filepath.Join(dir, "bridge")
		if _, err := os.Stat(path); err != nil {
			continue
		}
		out, err := exec.Command(path).CombinedOutput()
		match := pluginVersion.FindSubmatch(out)
		if err != nil || match == nil {
			return false
		}
		newer, err := version.GreaterThanOrEqualTo(string(match[1]), "1.3.0")
		return err == nil && newer
	}
	return false
}
