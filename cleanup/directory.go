// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"path/filepath"
	"slices"
)

// directory is where a plugin keeps files.
type directory struct {
	// paths are its defaults.
	paths []string
	// configured returns the directory that a plugin configuration names; empty:
	// none. Nil: the plugin has no such setting.
	configured func(pluginConf) string
}

// list returns the defaults, and the directories that conflists name by an
// absolute path: a relative one would depend on where this process runs.
func (d directory) list(conflists []json.RawMessage) []string {
	list := slices.Clone(d.paths)
	for _, conflist := range conflists {
		for _, plugin := range pluginConfs(conflist) {
			if d.configured == nil {
				continue
			}
			if path := d.configured(plugin); filepath.IsAbs(path) {
				list = append(list, path)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
