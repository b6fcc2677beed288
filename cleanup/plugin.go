// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/state"
)

// catalogue are the plugins of which it is known what they leave.
var catalogue = []string{
	"bridge", "ptp", "macvlan", "ipvlan", "vlan", "host-device", "dummy", "tap", "loopback",
	"portmap", "firewall", "bandwidth", "tuning", "sbr", "vrf", "host-local", "static",
}

// pluginConf is what matters here of a plugin's configuration.
type pluginConf struct {
	Type    string `json:"type"`
	Backend string `json:"backend"`
	DataDir string `json:"dataDir"`
	IPAM    struct {
		Type    string `json:"type"`
		DataDir string `json:"dataDir"`
	} `json:"ipam"`
}

// plugins returns what a conflist has. One that cannot be parsed has none: no
// plugin ran with it.
func plugins(conflist json.RawMessage) []pluginConf {
	var c struct {
		Plugins []pluginConf `json:"plugins"`
	}
	if json.Unmarshal(conflist, &c) != nil {
		return nil
	}
	return c.Plugins
}

// pluginTypes returns the plugins that an attachment's conflist names.
func pluginTypes(a state.Attachment) []string {
	var types []string
	for _, plugin := range plugins(a.ConfList) {
		types = append(types, plugin.Type)
		if plugin.IPAM.Type != "" {
			types = append(types, plugin.IPAM.Type)
		}
	}
	return types
}

func usesPlugin(a state.Attachment, name string) bool { return slices.Contains(pluginTypes(a), name) }

// UnknownPluginError is an attachment whose DEL failed and that has a plugin of
// which it is not known what it leaves.
type UnknownPluginError struct{ Network, Interface, Plugin string }

func (e *UnknownPluginError) Error() string {
	return fmt.Sprintf("network %q as %s: only the plugin %s knows what it left, and its DEL failed", e.Network, e.Interface, e.Plugin)
}

// Kind is that of package errdefs.
func (*UnknownPluginError) Kind() errdefs.Kind { return errdefs.Failed }

func unknownPlugins(suspects []state.Suspect) error {
	var errs []error
	for _, s := range suspects {
		a := s.Attachment
		for _, plugin := range pluginTypes(a) {
			if s.DelErr != nil && !slices.Contains(catalogue, plugin) {
				errs = append(errs, &UnknownPluginError{a.Network, a.Interface, plugin})
			}
		}
	}
	return errors.Join(errs...)
}
