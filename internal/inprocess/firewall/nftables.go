// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package firewall

import (
	"errors"
	"slices"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Chains of the table that separates bridges on a host without iptables, as those of the ingress policy there.
const (
	fromBridge = "from_bridge"
	toBridge   = "to_bridge"
)

var ingressTable = &netfilter.Table{
	Family: netfilter.INet, Name: "allocnet_ingress", Comment: "Ingress policies of the plugin firewall, on a host without iptables",
	Chains: []netfilter.Chain{
		{Name: fromBridge},
		{Name: toBridge},
		{
			Name: "forward", Hook: &netfilter.Hook{Number: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Filters: true},
			Rules: []netfilter.Rule{{Chain: "forward", Exprs: netfilter.Verdict(expr.VerdictJump, fromBridge)}},
		},
	},
}

// inNFTables tells whether the host has no iptables. Then there is no table of iptables whose rules could drop what the plugin
// accepts, and a rule that accepts in another table of nftables keeps none from dropping: so only the ingress policy has rules.
func (conf *config) inNFTables(c *plugin.Call) bool {
	return conf.Backend != rules.BackendIPTables && rules.Backend(c.Ctx, nil, c.Changes.Rules.Kind) == rules.BackendNFTables
}

// ensureNFTables leaves the rules of the ingress policy to be added where the bridge of the result has none yet.
func (conf *config) ensureNFTables(c *plugin.Call, result *current.Result) error {
	if conf.IptablesAdminChainName != "" {
		return errors.New("iptablesAdminChainName is a chain of iptables, which this host does not have: install iptables, or remove the key")
	}
	bridge, comment, err := conf.policyBridge(result)
	if err != nil || bridge == "" {
		return err
	}
	r := ingressOf(bridge, comment, conf.isolated())
	if c.Verb == "ADD" {
		made, err := isMade(c, r)
		if made || err != nil {
			return err
		}
	}
	c.Changes.Rules.Add(rules.Change{NFTables: r})
	return nil
}

// isMade tells whether an earlier attachment has the rules of the bridge.
func isMade(c *plugin.Call, r *rules.NFTables) (bool, error) {
	socket, err := netfilter.Dial(c.Ctx)
	if err != nil {
		return false, err
	}
	defer socket.Close()
	for _, chain := range r.Chains {
		if _, lacks, err := r.Listed(socket.Listings(), chain); lacks != 0 || err != nil {
			return false, err
		}
	}
	return true, nil
}

// ingressOf separates a bridge from others, and its ports from each other if isolated.
func ingressOf(bridge, comment string, isolated bool) *rules.NFTables {
	comment += " " + bridge
	from := netfilter.LinkMatch(expr.MetaKeyIIFNAME, expr.CmpOpEq, bridge)
	to := func(op expr.CmpOp) []expr.Any { return netfilter.LinkMatch(expr.MetaKeyOIFNAME, op, bridge) }
	rule := func(chain, text string, exprs ...[]expr.Any) netfilter.Rule {
		return netfilter.Rule{Chain: chain, Comment: comment, Text: text, Exprs: slices.Concat(exprs...)}
	}
	drop := netfilter.Verdict(expr.VerdictDrop, "")
	r := &rules.NFTables{
		Table: ingressTable, Chains: []string{fromBridge, toBridge}, Replace: true,
		Owns: func(other string) bool { return other == comment },
		Rules: []netfilter.Rule{
			rule(fromBridge, `iifname "`+bridge+`" oifname != "`+bridge+`" jump `+toBridge, from, to(expr.CmpOpNeq), netfilter.Verdict(expr.VerdictJump, toBridge)),
			rule(toBridge, `oifname "`+bridge+`" drop`, to(expr.CmpOpEq), drop),
		},
	}
	if isolated {
		r.Rules = append(r.Rules, rule(fromBridge, `iifname "`+bridge+`" oifname "`+bridge+`" drop`, from, to(expr.CmpOpEq), drop))
	}
	return r
}
