// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package firewall is the plugin firewall, which has the host let packets of the allocation through: by rules, or
// as sources of a zone of firewalld.
package firewall

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Type is the firewall plugin.
var Type = plugin.Type{
	Config: func() any { return &config{} },
	Add:    add, Del: del, Repair: repair,
}

// config is the configuration of the firewall plugin.
type config struct {
	types.NetConf
	Backend                string `json:"backend"`
	IptablesAdminChainName string `json:"iptablesAdminChainName"`
	FirewalldZone          string `json:"firewalldZone"`
	IngressPolicy          string `json:"ingressPolicy"`
}

// forwardChain has the rules of all attachments that the firewall lets through.
const forwardChain = "CNI-FORWARD"

func parse(c *plugin.Call) (*config, *current.Result, error) {
	if err := c.RequireVersion("0.4.0"); err != nil {
		return nil, nil, err
	}
	conf := &config{}
	if err := c.Load(conf); err != nil {
		return nil, nil, err
	}
	result, err := c.PrevResult()
	return conf, result, err
}

func add(c *plugin.Call) (*current.Result, error) {
	conf, result, err := parse(c)
	if err != nil {
		return nil, err
	}
	if result == nil {
		return nil, errors.New("missing prevResult from earlier plugin")
	}
	if err := conf.ensure(c, result, (*sources).add); err != nil {
		return nil, err
	}
	return result, nil
}

// ensure has sources made where firewalld is the backend, and leaves the rules to be added.
func (conf *config) ensure(c *plugin.Call, result *current.Result, do func(*sources) error) error {
	all, err := conf.ingress(result)
	if err != nil {
		return err
	}
	isFirewalld, err := conf.withSources(c, result, do)
	if err != nil {
		return err
	}
	if conf.inNFTables(c) {
		return conf.ensureNFTables(c, result)
	}
	if !isFirewalld {
		all = append(conf.rules(result), all...)
	}
	for _, r := range all {
		c.Changes.Rules.Add(rules.Change{IPTables: r})
	}
	return nil
}

// rules returns the rules that let the addresses of an attachment through.
func (conf *config) rules(result *current.Result) []*rules.IPTables {
	var all []*rules.IPTables
	for _, address := range result.IPs {
		ip := address.Address.IP
		network := links.HostNetwork(ip)
		all = append(all, &rules.IPTables{
			Family: netfilter.FamilyOf(ip), Table: "filter", Address: ip,
			Shared: []rules.Group{conf.forwardGroup()},
			Rules: []rules.Rule{
				{Chain: forwardChain, Args: []string{"-d", network.String(), "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"}},
				{Chain: forwardChain, Args: []string{"-s", network.String(), "-j", "ACCEPT"}},
			},
		})
	}
	return all
}

// forwardGroup leads forwarded packets through the rules of the host's administrator, and then
// through those of the attachments.
func (conf *config) forwardGroup() rules.Group {
	admin := cmp.Or(conf.IptablesAdminChainName, "CNI-ADMIN")
	return rules.Group{
		Chains: []string{forwardChain, admin},
		Rules: []rules.Rule{
			{Chain: "FORWARD", First: true, Args: []string{"-m", "comment", "--comment", "CNI firewall plugin rules", "-j", forwardChain}, Seen: netfilter.AllTo(forwardChain, "comment")},
			{Chain: forwardChain, First: true, Args: []string{"-m", "comment", "--comment", "CNI firewall plugin admin overrides", "-j", admin}, Seen: netfilter.AllTo(admin, "comment")},
		},
	}
}

func del(c *plugin.Call) error {
	conf, result, err := parse(c)
	if err != nil {
		return err
	}
	if _, err := conf.policyComment(); err != nil {
		return err
	}
	if result == nil {
		return nil // only its addresses tell which rules are the attachment's
	}
	// Rules of iptables as well: firewalld may have been started since ADD.
	if _, err := conf.withSources(c, result, (*sources).remove); err != nil {
		return err
	}
	for _, r := range conf.rules(result) {
		c.Changes.Rules.Add(rules.Change{Remove: true, IPTables: r})
	}
	return nil
}

// isolated tells whether the policy separates the attachments of one bridge.
func (conf *config) isolated() bool { return conf.IngressPolicy == "isolated" }

// policyComment returns the comment of rules of the ingress policy, empty if it lets all
// through.
func (conf *config) policyComment() (string, error) {
	switch conf.IngressPolicy {
	case "", "open":
		return "", nil
	case "same-bridge", "isolated":
		return "CNI firewall plugin rules (ingressPolicy: " + conf.IngressPolicy + ")", nil
	}
	return "", fmt.Errorf("unknown ingress policy: %q", conf.IngressPolicy)
}

func hasFamily(result *current.Result, family netfilter.Family) bool {
	return slices.ContainsFunc(result.IPs, func(address *current.IPConfig) bool { return netfilter.FamilyOf(address.Address.IP) == family })
}

// repair leaves the rules of the firewall to be added where they are missing.
func repair(c *plugin.Call) error {
	conf, result, err := parse(c)
	if err != nil {
		return err
	}
	if result == nil {
		return errors.New("missing prevResult from earlier plugin")
	}
	return conf.ensure(c, result, func(s *sources) error { return s.repair(c.Repair) })
}
