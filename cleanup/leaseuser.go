// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"slices"
)

// leaseUsers are the networks that keep their leases in a directory, by its path without
// links. A directory of host-local is named after its network, but one of allocnet-ipam after
// the pool, which has another name, and which several networks can use.
type leaseUsers map[string][]string

// leaseUsers returns those of the networks.
func (d directory) leaseUsers(conflists []json.RawMessage) leaseUsers {
	users := leaseUsers{}
	for _, conflist := range conflists {
		var list struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(conflist, &list) != nil || list.Name == "" { // no plugin ran with it
			continue
		}
		for _, conf := range pluginConfs(conflist) {
			base, err := filepath.EvalSymlinks(cmp.Or(d.configured(conf), d.paths[0]))
			name := conf.leaseDir(list.Name)
			if err != nil || name == "" { // a missing directory has no leases
				continue
			}
			dir := filepath.Join(base, name)
			if !slices.Contains(users[dir], list.Name) {
				users[dir] = append(users[dir], list.Name)
			}
		}
	}
	return users
}

// leaseDir returns the name of the directory that has the leases of a network's plugin; empty
// if it has none.
func (c pluginConf) leaseDir(network string) string {
	switch c.IPAM.Type {
	case "host-local":
		return network
	case "allocnet-ipam":
		return c.IPAM.Pool
	}
	return ""
}

// of returns the networks that use a directory. That of an unknown network is taken for one
// of host-local.
func (u leaseUsers) of(dir string) []string {
	if networks := u[dir]; len(networks) > 0 {
		return networks
	}
	return []string{filepath.Base(dir)}
}
