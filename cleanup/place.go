// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"path/filepath"
	"slices"
)

// places are the directories in which plugins keep files.
type places struct {
	leases, tuning []string
}

// placesOf returns the plugins' own directories, and those that conflists name
// by an absolute path: others would be looked for where this process happens to
// be.
func placesOf(conflists []json.RawMessage) places {
	p := places{leases: slices.Clone(leaseBases), tuning: []string{"/run/cni/tuning"}}
	for _, conflist := range conflists {
		for _, plugin := range plugins(conflist) {
			if filepath.IsAbs(plugin.IPAM.DataDir) {
				p.leases = append(p.leases, plugin.IPAM.DataDir)
			}
			if plugin.Type == "tuning" && filepath.IsAbs(plugin.DataDir) {
				p.tuning = append(p.tuning, plugin.DataDir)
			}
		}
	}
	slices.Sort(p.leases)
	slices.Sort(p.tuning)
	return places{slices.Compact(p.leases), slices.Compact(p.tuning)}
}
