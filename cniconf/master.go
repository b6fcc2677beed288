// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
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
	// Creators are networks whose bridges these links are. Empty: they are not, or that
	// was not looked up.
	Creators []string
}

func (e *MissingMasterError) Error() string {
	missing := strings.Join(e.Missing, ", ")
	if len(e.Creators) > 0 {
		return fmt.Sprintf("network %q: the host has no link %s: select network %s, which creates it, before network %q, or create it", e.Network, missing, strings.Join(e.Creators, ", "), e.Network)
	}
	return fmt.Sprintf("network %q: the host has no link %s: create it, or correct \"master\" in %s", e.Network, missing, e.Path)
}

// Kind is that of package errdefs.
func (*MissingMasterError) Kind() errdefs.Kind { return errdefs.Refused }

// masters returns the links of the host that the network's interfaces are made on.
// Without "master", a plugin takes the link of the default route.
func (n *Network) masters() []string {
	var masters []string
	for _, d := range n.Devices() {
		if !d.Bridge && d.Name != "" {
			masters = append(masters, d.Name)
		}
	}
	return masters
}

// createsBridge tells whether attachments to the network create a bridge of the host.
func (n *Network) createsBridge(name string) bool {
	return slices.ContainsFunc(n.Devices(), func(d Device) bool { return d.Bridge && d.Name == name })
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
	return &MissingMasterError{Network: n.Name, Path: n.Path, Missing: missing}
}

// Device is a link of the host that connects the attachments to a network.
type Device struct {
	// Plugin is the type of the plugin that uses it.
	Plugin string
	// Name is that of the link. Empty: the link of the default route.
	Name string
	// Bridge is whether the plugin creates it as a bridge. Otherwise it is a master, which
	// the host has to have.
	Bridge bool
}

// Devices returns the bridges and masters of the network, in the order of its plugins. Other
// plugins have none, and neither has one whose master is in the container.
func (n *Network) Devices() []Device {
	var all []Device
	for _, p := range n.Chain() {
		switch {
		case p.Type == "bridge" && p.Bridge != "":
			all = append(all, Device{p.Type, p.Bridge, true})
		case slices.Contains(masterPlugins, p.Type) && !p.LinkInContainer:
			all = append(all, Device{Plugin: p.Type, Name: p.Master})
		}
	}
	return all
}

// masterPlugins make interfaces on a link of the host.
var masterPlugins = []string{"macvlan", "ipvlan", "vlan"}
