// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
)

// ownPlugin is the CNI plugin that runs this engine. Attaching a network of it would wait
// for the lock of the allocation for ever.
const ownPlugin = "allocnet-cni"

// Catalog returns the networks that can be attached now: Config.Networks, then
// those of Config.ConfDirs as they are on disk.
func (e *Engine) Catalog() (*cniconf.Catalog, error) { return e.config.catalog() }

func (c Config) catalog() (*cniconf.Catalog, error) {
	catalog, err := cniconf.Load(c.ConfDirs...)
	if errors.Is(err, cniconf.ErrNoDir) && len(c.Networks) > 0 {
		catalog, err = &cniconf.Catalog{Dirs: c.ConfDirs}, nil
	}
	if err != nil {
		return nil, err
	}
	catalog.Networks = slices.Concat(c.Networks, catalog.Networks)
	return catalog, nil
}

// resolve finds networks, all of whose plugins are installed.
func (c Config) resolve(names []string) ([]*cniconf.Network, error) {
	catalog, err := c.catalog()
	if err != nil {
		return nil, err
	}
	networks, err := c.Usable(catalog).LookupAll(names)
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		if slices.Contains(n.PluginTypes(), ownPlugin) {
			return nil, &RequestError{Field: "network", Value: n.Name, Reason: "is made by " + ownPlugin + " itself: name one of those that it attaches"}
		}
	}
	return networks, nil
}

// fileOf returns the file of a network for messages.
func (c Config) fileOf(network string) string {
	catalog, err := c.catalog()
	if err == nil {
		if n, err := catalog.Lookup(network); err == nil {
			return n.Path
		}
	}
	return fmt.Sprintf("the configuration of network %q", network)
}
