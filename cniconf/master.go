// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// HasLink tells whether the host has a link of a name.
type HasLink func(name string) (bool, error)

// MissingMasterError reports links that a network's interfaces are made on, and that the
// host does not have.
type MissingMasterError struct {
	Network, Path string
	Missing       []string
}

func (e *MissingMasterError) Error() string {
	return fmt.Sprintf("network %q: the host has no link %s: create it, or correct \"master\" in %s", e.Network, strings.Join(e.Missing, ", "), e.Path)
}

// Kind is that of package errdefs.
func (*MissingMasterError) Kind() errdefs.Kind { return errdefs.Refused }

// masters returns the links of the host that the network's interfaces are made on.
// Without "master", a plugin takes the link of the default route.
func (n *Network) masters() []string {
	var masters []string
	for _, plugin := range n.List.Plugins {
		var conf struct {
			Master          string `json:"master"`
			LinkInContainer bool   `json:"linkInContainer"`
		}
		if !slices.Contains([]string{"macvlan", "ipvlan", "vlan"}, plugin.Network.Type) || json.Unmarshal(plugin.Bytes, &conf) != nil {
			continue // the plugin reports a mistake
		}
		if conf.Master != "" && !conf.LinkInContainer {
			masters = append(masters, conf.Master)
		}
	}
	return masters
}

// CheckMasters checks that the host has the network's masters. The error is a
// *MissingMasterError, or that of has.
func (n *Network) CheckMasters(has HasLink) error {
	var missing []string
	for _, master := range n.masters() {
		found, err := has(master)
		if err != nil {
			return fmt.Errorf("network %q: %w", n.Name, err)
		}
		if !found {
			missing = append(missing, master)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &MissingMasterError{n.Name, n.Path, missing}
}
