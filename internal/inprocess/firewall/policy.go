// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package firewall

import (
	"errors"
	"fmt"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/inprocess/rules"
)

// Chains that separate bridges: packets that leave one go to the second, which drops those to
// another.
const (
	isolationChain  = "CNI-ISOLATION-STAGE-1"
	isolationChain2 = "CNI-ISOLATION-STAGE-2"
)

// ingress returns the rules of the ingress policy for the bridge of a result. They stay when
// the attachment is removed: others may be on the bridge.
func (conf *config) ingress(result *current.Result) ([]*rules.IPTables, error) {
	bridge, comment, err := conf.policyBridge(result)
	if err != nil || bridge == "" {
		return nil, err
	}
	var all []*rules.IPTables
	for _, family := range rules.Families {
		if hasFamily(result, family) {
			group := isolationGroup(bridge, comment, conf.isolated())
			all = append(all, &rules.IPTables{Family: family, Table: "filter", Shared: []rules.Group{group}})
		}
	}
	return all, nil
}

// policyBridge returns the bridge of a result with the comment of its rules; empty if the policy lets all through.
func (conf *config) policyBridge(result *current.Result) (bridge, comment string, err error) {
	comment, err = conf.policyComment()
	if err != nil || comment == "" {
		return "", "", err
	}
	if len(result.Interfaces) == 0 {
		return "", "", fmt.Errorf("interface needs to be set for ingress policy %q, make sure to chain \"firewall\" plugin with \"bridge\"", conf.IngressPolicy)
	}
	if result.Interfaces[0] == nil {
		return "", "", errors.New("got nil interface")
	}
	bridge = result.Interfaces[0].Name
	if bridge == "" {
		return "", "", errors.New("got empty bridge name")
	}
	return bridge, comment, nil
}

// isolationGroup separates a bridge from others, and its ports from each other if isolated.
func isolationGroup(bridge, comment string, isolated bool) rules.Group {
	const common = "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)"
	rule := func(chain string, first bool, comment string, args ...string) rules.Rule {
		return rules.Rule{Chain: chain, First: first, Args: append(args, "-m", "comment", "--comment", comment)}
	}
	group := rules.Group{
		Chains: []string{isolationChain, isolationChain2},
		Rules: []rules.Rule{
			rule("FORWARD", true, common, "-j", isolationChain),
			rule(isolationChain, true, comment, "-i", bridge, "!", "-o", bridge, "-j", isolationChain2),
		},
	}
	if isolated {
		group.Rules = append(group.Rules, rule(isolationChain, true, comment, "-i", bridge, "-o", bridge, "-j", "DROP"))
	}
	group.Rules = append(group.Rules,
		rule(isolationChain, false, common, "-j", "RETURN"),
		rule(isolationChain2, true, common, "-o", bridge, "-j", "DROP"),
		rule(isolationChain2, false, common, "-j", "RETURN"))
	return group
}
