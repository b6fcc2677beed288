// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/strictjson"
	"github.com/allocnet/allocnet/policy"
)

// CheckKeys returns why the keys of a network keep it from being attached: those of its rules, also where its packets cannot be dropped,
// host names in conditions, addresses that reach nothing, limits that exclude each other, and those of plugins that this process would
// execute. Where the plugins are executed, a newer
// one may know a key that is unknown here.
func (c Config) CheckKeys(n *cniconf.Network) error {
	c = c.WithDefaults()
	options, err := policy.Of(n)
	if err != nil {
		return err
	}
	for _, check := range []func(*cniconf.Network, func(*cniconf.Network) error) error{policy.CheckIsolation, policy.CheckEgress, policy.CheckPublishAddress} {
		if err := check(n, c.WhyPlugins); err != nil {
			return err
		}
	}
	if err := c.checkLease(n, options); err != nil {
		return err
	}
	if err := checkConditions(n); err != nil {
		return err
	}
	if err := n.CheckAddresses(); err != nil {
		return err
	}
	if err := cniconf.CheckLimits(n, false, false); err != nil {
		return err
	}
	mistakes, err := c.mistakes(n)
	if err != nil || len(mistakes) == 0 {
		return err
	}
	switch {
	case c.Executor == ExecutorPlugins, options.Executor == policy.ExecutorPlugins:
		return nil
	case c.ReasonForPlugins(n.List, options.Executor) == nil, n.CheckPlugins(c.PluginDirs) != nil:
		return errdefs.As(errdefs.Refused, mistakes[0])
	}
	return nil
}

// Warnings returns what is wrong with a network and does not keep it from being attached: keys
// that its plugins, which are executed, may not know, and addresses without routes.
func (c Config) Warnings(n *cniconf.Network) []string {
	mistakes, err := c.WithDefaults().mistakes(n)
	if err != nil || c.CheckKeys(n) != nil {
		return nil
	}
	var warnings []string
	for _, m := range mistakes {
		warnings = append(warnings, m.Error()+" (the plugin is executed, and may ignore the key)")
	}
	return append(warnings, warnRouteless(n)...)
}

// mistakes returns those in the keys of the network's plugins, which are looked for once.
func (c Config) mistakes(n *cniconf.Network) ([]*strictjson.Mistake, error) {
	if c.InProcess == nil {
		return nil, nil
	}
	of := cniconf.Derive(n, mistakesKey{}, func() (m mistakes) {
		m.all, m.err = mistakesOf(n)
		return m
	})
	return of.all, of.err
}

// mistakes are those of a network, or why they cannot be looked for.
type mistakes struct {
	all []*strictjson.Mistake
	err error
}

type mistakesKey struct{}

func mistakesOf(n *cniconf.Network) (all []*strictjson.Mistake, err error) {
	for i, text := range n.Plugins {
		p := n.List.Plugins[i].Network
		found, err := inprocess.Mistakes(p.Type, p.IPAM.Type, text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}
