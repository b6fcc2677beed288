// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/plan"
)

// OwnPlugin is the CNI plugin that runs this engine. Attaching a network of it would wait
// for the lock of the allocation for ever.
const OwnPlugin = "allocnet-cni"

// Resolve finds networks, all of whose plugins are installed.
func (c Config) Resolve(names []string) ([]*cniconf.Network, error) {
	catalog, err := c.Catalog()
	if err != nil {
		return nil, err
	}
	networks, err := c.Usable(catalog).LookupAll(names)
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		if slices.Contains(n.PluginTypes(), OwnPlugin) {
			return nil, &plan.RequestError{Field: "network", Value: n.Name, Reason: "is made by " + OwnPlugin + " itself: name one of those that it attaches"}
		}
	}
	return networks, nil
}

// FileOf returns the file of a network for messages.
func (c Config) FileOf(network string) string {
	catalog, err := c.Catalog()
	if err == nil {
		if n, err := catalog.Lookup(network); err == nil {
			return n.Path
		}
	}
	return fmt.Sprintf("the configuration of network %q", network)
}
