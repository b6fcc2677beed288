// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import "iter"

// Usable is a catalog together with the plugin directories and the links of the host: it
// tells the networks that the host can attach from those whose plugins or masters are
// missing. These are looked up at each call.
type Usable struct {
	catalog    *Catalog
	pluginDirs []string
	hasLink    HasLink
}

// Usable returns the catalog as the host makes it usable. An empty list means
// PluginDirs(nil).
func (c *Catalog) Usable(pluginDirs []string, has HasLink) Usable {
	return Usable{c, PluginDirs(pluginDirs), has}
}

// Check tells why the host cannot attach a network. The error is a *MissingPluginError, a
// *MissingMasterError, or that of HasLink.
func (u Usable) Check(n *Network) error {
	if err := n.CheckPlugins(u.pluginDirs); err != nil {
		return err
	}
	return n.CheckMasters(u.hasLink)
}

// Lookup returns the network of a name. The error is a *NotFoundError or that of Check.
func (u Usable) Lookup(name string) (*Network, error) {
	n, err := u.catalog.Lookup(name)
	if err != nil {
		return nil, err
	}
	if err := u.Check(n); err != nil {
		return nil, err
	}
	return n, nil
}

// All yields each network of the catalog with nil or the error of Check.
func (u Usable) All() iter.Seq2[*Network, error] {
	return func(yield func(*Network, error) bool) {
		for _, n := range u.catalog.Networks {
			if !yield(n, u.Check(n)) {
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
