// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// pluginName is the type of the IPAM plugin whose pools are kept.
const pluginName = "allocnet-ipam"

// Find returns the pools of networks, and the error of each pool that cannot be used. A pool
// that several networks use is one pool, and they must agree on it.
func Find(networks []*cniconf.Network) (found []*ipam.Config, broken map[string]error) {
	broken = map[string]error{}
	first := map[string]*ipam.Config{}
	for _, n := range networks {
		configs := []json.RawMessage{n.PublishAddress()}
		for _, plugin := range n.List.Plugins {
			configs = append(configs, plugin.Bytes)
		}
		for i, config := range configs {
			c, name, err := parse(config)
			if c == nil && err == nil {
				continue
			}
			isPublished := i == 0
			if err == nil {
				err = agree(first[name], c)
			}
			if err != nil {
				broken[name] = errors.Join(broken[name], fmt.Errorf("%s: %w", n.Path, err))
				continue
			}
			if first[name] == nil {
				first[name], c.PublishedOnly = c, true
				found = append(found, c)
			}
			first[name].PublishedOnly = first[name].PublishedOnly && isPublished
		}
	}
	return found, broken
}

// parse returns the pool of a plugin, or of published addresses; nil if it uses another IPAM plugin. The name is that of
// the pool, even if the rest is invalid.
func parse(config []byte) (c *ipam.Config, name string, err error) {
	var conf struct {
		IPAM json.RawMessage `json:"ipam"`
	}
	var pool struct {
		Type string `json:"type"`
		Pool string `json:"pool"`
	}
	if json.Unmarshal(config, &conf) != nil || json.Unmarshal(conf.IPAM, &pool) != nil || pool.Type != pluginName {
		return nil, "", nil // the plugin reports the mistake
	}
	c, err = ipam.Parse(conf.IPAM)
	return c, pool.Pool, err
}

// ErrDisagree is a pool that is configured in two ways on this host.
var ErrDisagree = errdefs.New(errdefs.Refused, "the configurations of the pool disagree")

// agree returns an error for two configurations of one pool that cannot both be right.
func agree(first, c *ipam.Config) error {
	switch {
	case first == nil:
		return nil
	case first.Hash() != c.Hash():
		return fmt.Errorf("%w: another network of this host has pool %q as %s, and this one as %s", ErrDisagree, c.Pool, first.Content(), c.Content())
	case first.StateDir != c.StateDir || first.DataDir != c.DataDir || first.ConfigDir != c.ConfigDir:
		return fmt.Errorf("%w: another network of this host has pool %q with other directories", ErrDisagree, c.Pool)
	}
	return nil
}
