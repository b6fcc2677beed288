// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// DefaultPluginDirs are the plugin directories when none are configured, separated
// by ':': the one of CNI's release archives, then the one of Debian's
// containernetworking-plugins.
const DefaultPluginDirs = "/opt/cni/bin:/usr/lib/cni"

// PluginDirs returns the configured plugin directories, else those of CNI_PATH,
// else DefaultPluginDirs.
func PluginDirs(configured []string) []string {
	if len(configured) > 0 {
		return configured
	}
	if path := os.Getenv("CNI_PATH"); path != "" {
		return filepath.SplitList(path)
	}
	return filepath.SplitList(DefaultPluginDirs)
}

// MissingPluginError reports the plugins of a network that cannot be executed.
type MissingPluginError struct {
	Network string
	// Missing maps the name of each such plugin to the reason.
	Missing map[string]string
	// Dirs are the directories that were searched.
	Dirs []string
	// Why is why the network needs them: often a mistake in its configuration. Nil: not known.
	Why error
}

func (e *MissingPluginError) Error() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(e.Missing)) {
		parts = append(parts, fmt.Sprintf("plugin %q %s", name, e.Missing[name]))
	}
	text := fmt.Sprintf("network %q: %s (searched %s)", e.Network, strings.Join(parts, ", "), strings.Join(e.Dirs, ", "))
	if e.Why != nil {
		text += fmt.Sprintf("; allocnet does not execute the network itself: %v", e.Why)
	}
	return text
}

// Kind is that of package errdefs.
func (*MissingPluginError) Kind() errdefs.Kind { return errdefs.Refused }

// CheckPlugins checks that the plugin directories have every executable that the
// network needs. An empty list means PluginDirs(nil). The error is a
// *MissingPluginError.
func (n *Network) CheckPlugins(dirs []string) error {
	dirs = PluginDirs(dirs)
	missing := map[string]string{}
	for _, name := range n.binaries() {
		if reason := checkPlugin(name, dirs); reason != "" {
			missing[name] = reason
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &MissingPluginError{Network: n.Name, Missing: missing, Dirs: dirs}
}

func checkPlugin(name string, dirs []string) (reason string) {
	reason = "is not installed"
	for _, dir := range dirs {
		info, err := os.Stat(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			reason = "cannot be read: " + err.Error()
		case !info.Mode().IsRegular():
			reason = "is not a regular file"
		case info.Mode()&0o111 == 0:
			reason = "is not executable"
		default:
			return ""
		}
	}
	return reason
}
