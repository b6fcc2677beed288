// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Host is what decides which networks can be attached.
type Host struct {
	// PluginDirs are searched for plugins. Empty: PluginDirs(nil).
	PluginDirs []string
	// HasLink tells whether a master exists. Required.
	HasLink HasLink
	// WhyPlugins returns why a network needs its plugins, and nil if it needs none. Nil: all
	// need them.
	WhyPlugins func(*Network) error
	// CheckKeys returns why the keys of a network keep it from being attached. Nil: none do.
	CheckKeys func(*Network) error
}

// Usable is a catalog together with the host: it tells the networks that the host can
// attach from those whose plugins or masters are missing. These are looked up at each
// call.
type Usable struct {
	catalog *Catalog
	host    Host
}

// Usable returns the catalog as the host makes it usable.
func (c *Catalog) Usable(h Host) Usable { return Usable{c, h} }

// Check tells why the host cannot attach a network. A master that is the bridge of another
// network is not missing, because a request can select both. The error is a
// *MissingPluginError, a *MissingMasterError, or that of HasLink or CheckKeys.
func (u Usable) Check(n *Network) error {
	if u.host.CheckKeys != nil {
		if err := u.host.CheckKeys(n); err != nil {
			return fmt.Errorf("network %q: %w", n.Name, err)
		}
	}
	if err := u.CheckPlugins(n); err != nil {
		return err
	}
	return n.CheckMasters(u.orCreated(u.creators))
}

// CheckPlugins tells which plugins are missing, of a network that needs them. The error is a
// *MissingPluginError.
func (u Usable) CheckPlugins(n *Network) error {
	err := n.CheckPlugins(u.host.PluginDirs)
	missing, ok := errors.AsType[*MissingPluginError](err)
	if !ok || u.host.WhyPlugins == nil {
		return err
	}
	if missing.Why = u.host.WhyPlugins(n); missing.Why == nil {
		return nil
	}
	return missing
}

// creators returns the networks that create a bridge and have their plugins.
func (u Usable) creators(bridge string) []*Network {
	return slices.DeleteFunc(creators(u.catalog.Networks, bridge), func(n *Network) bool {
		return u.CheckPlugins(n) != nil
	})
}

func creators(networks []*Network, bridge string) []*Network {
	var found []*Network
	for _, n := range networks {
		if n.createsBridge(bridge) {
			found = append(found, n)
		}
	}
	return found
}

// orCreated adds the bridges of networks to the links of the host.
func (u Usable) orCreated(creators func(bridge string) []*Network) HasLink {
	return func(name string) (bool, error) {
		found, err := u.host.HasLink(name)
		return found || err == nil && len(creators(name)) > 0, err
	}
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

// LookupAll returns the networks of one request, in their order. The host has the master of
// each, or an earlier one creates it. The errors are those of Lookup.
func (u Usable) LookupAll(names []string) ([]*Network, error) {
	var networks []*Network
	for _, name := range names {
		n, err := u.Lookup(name)
		if err != nil {
			return nil, err
		}
		err = n.CheckMasters(u.orCreated(func(bridge string) []*Network { return creators(networks, bridge) }))
		if missing, ok := errors.AsType[*MissingMasterError](err); ok {
			for _, bridge := range missing.Missing {
				if found := u.creators(bridge); len(found) > 0 {
					missing.Creators = append(missing.Creators, found[0].Name)
				}
			}
		}
		if err != nil {
			return nil, err
		}
		networks = append(networks, n)
	}
	return networks, nil
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
// network and each broken file. Those of OwnPlugin are neither.
func (u Usable) Split() (networks []*Network, problems []error) {
	for n, err := range u.All() {
		switch {
		case err != nil:
			problems = append(problems, err)
		case !n.IsOwn():
			networks = append(networks, n)
		}
	}
	for _, broken := range u.catalog.Broken {
		problems = append(problems, broken)
	}
	return networks, problems
}
