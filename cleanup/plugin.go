// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/allocnet/allocnet/state"
)

// plugin is what is known of the objects that one CNI plugin makes on the host.
type plugin struct {
	name string
	// leaves are the objects that can be left. Empty: only interfaces in the
	// namespace, and what the IPAM plugin makes.
	leaves []*leak
	// delMayLie is whether DEL reports success and leaves objects where the
	// namespace is missing.
	delMayLie bool
	// movesLink is whether the interface is a device of the host, which goes
	// back there.
	movesLink bool
	// zone is that of firewalld whose sources the addresses of an attachment may be; empty: none. Nil: never any.
	zone func(c pluginConf) string
}

// leak is one kind of objects that a plugin leaves: each pattern says how they
// are found, and how they show their owner. Empty patterns find nothing.
type leak struct {
	kind   Kind
	chains []chainPattern
	rules  []rulePattern
	tables []nftTable
	links  []linkPattern
	files  []filePattern
	// leases are directories that have one for each of host-local's networks, and for each
	// pool of allocnet-ipam.
	leases []directory
}

type catalog []plugin

// find returns the zero plugin for a name that the catalogue lacks.
func (c catalog) find(name string) (found plugin) {
	if i := slices.IndexFunc(c, func(p plugin) bool { return p.name == name }); i >= 0 {
		found = c[i]
	}
	return found
}

func (c catalog) has(name string) bool { return c.find(name).name != "" }

// leaks yields each leak once, also where plugins share it.
func (c catalog) leaks() iter.Seq[*leak] {
	var all []*leak
	for _, p := range c {
		for _, l := range p.leaves {
			if !slices.Contains(all, l) {
				all = append(all, l)
			}
		}
	}
	return slices.Values(all)
}

// keys returns what the plugins derive from an owner for names and comments.
func (c catalog) keys() []func(Owner) string {
	var keys []func(Owner) string
	for l := range c.leaks() {
		for _, p := range l.chains {
			keys = append(keys, p.name.of)
		}
		for _, p := range l.links {
			keys = append(keys, p.name.of)
		}
		for _, t := range l.tables {
			if t.key != nil {
				keys = append(keys, t.key)
			}
			keys = append(keys, t.own.names...)
		}
		for _, p := range l.files {
			keys = append(keys, p.key)
		}
	}
	return keys
}

// pluginConf is the part of a plugin configuration that cleanup needs.
type pluginConf struct {
	Type    string `json:"type"`
	Backend string `json:"backend"`
	DataDir string `json:"dataDir"`
	// Device is of the plugin host-device.
	Device string `json:"device"`
	// FirewalldZone is of the plugin firewall.
	FirewalldZone string `json:"firewalldZone"`

	IPAM ipamConf `json:"ipam"`
	// PublishAddress is of the plugin portmap.
	PublishAddress struct {
		IPAM ipamConf `json:"ipam"`
	} `json:"publishAddress"`
}

type ipamConf struct {
	Type    string `json:"type"`
	DataDir string `json:"dataDir"`
	Pool    string `json:"pool"`
}

// pluginConfs returns the plugin configurations of a conflist. One that cannot
// be parsed has none: no plugin ran with it.
func pluginConfs(conflist json.RawMessage) []pluginConf {
	var c struct {
		Plugins []pluginConf `json:"plugins"`
	}
	if json.Unmarshal(conflist, &c) != nil {
		return nil
	}
	for _, p := range c.Plugins {
		if p.PublishAddress.IPAM.Type != "" { // its leases are as those of a plugin of their own
			c.Plugins = append(c.Plugins, pluginConf{Type: p.Type, IPAM: p.PublishAddress.IPAM})
		}
	}
	return c.Plugins
}

func pluginTypes(a state.Attachment) []string {
	var types []string
	for _, conf := range pluginConfs(a.ConfList) {
		types = append(types, conf.Type)
		if conf.IPAM.Type != "" {
			types = append(types, conf.IPAM.Type)
		}
	}
	return types
}

// movesLink tells whether a plugin moved the attachment's interface from the host.
func (c catalog) movesLink(a state.Attachment) bool {
	return slices.ContainsFunc(pluginTypes(a), func(name string) bool { return c.find(name).movesLink })
}

func (c catalog) unknownPlugins(suspects []state.Suspect) error {
	var errs []error
	for _, s := range suspects {
		a := s.Attachment
		for _, name := range pluginTypes(a) {
			if s.DelErr != nil && !c.has(name) {
				errs = append(errs, fmt.Errorf("network %q as %s: only the plugin %s knows what it left, and its DEL failed", a.Network, a.Interface, name))
			}
		}
	}
	return errors.Join(errs...)
}
