// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import "iter"

// Usable is a catalog together with the plugin directories of the host: it tells
// the networks that the host can attach from those whose plugins are missing.
// Plugins are looked up at each call.
type Usable struct {
	catalog    *Catalog
	pluginDirs []string
}

// Usable returns the catalog as the plugin directories make it usable. An empty
// list means PluginDirs(nil).
func (c *Catalog) Usable(pluginDirs []string) Usable { return Usable{c, PluginDirs(pluginDirs)} }

// Lookup returns the network of a name. The error is a *NotFoundError or a
// *MissingPluginError.
func (u Usable) Lookup(name string) (*Network, error) {
	n, err := u.catalog.Lookup(name)
	if err != nil {
		return nil, err
	}
	if err := n.CheckPlugins(u.pluginDirs); err != nil {
		return nil, err
	}
	return n, nil
}

// All yields each network of the catalog with nil or its *MissingPluginError.
func (u Usable) All() iter.Seq2[*Network, error] {
	return func(yield func(*Network, error) bool) {
		for _, n := range u.catalog.Networks {
			if !yield(n, n.CheckPlugins(u.pluginDirs)) {
				return
			}
		}
	}
}

// Split returns the networks that can be attached, and an error for each other
// network and each broken file.
func (u Usable) Split() (networks []*Network, problems []error) {
	for n, err := range u.All() {
		if err != nil {
			problems = append(problems, err)
			continue
		}
		networks = append(networks, n)
	}
	for _, broken := range u.catalog.Broken {
		problems = append(problems, broken)
	}
	return networks, problems
}
