// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"fmt"
	"regexp"

	"github.com/coreos/go-iptables/iptables"
)

// masqueraded is the rule of an allocation's address on the network "nomad", as iptables lists it.
var masqueraded = regexp.MustCompile(`^-A POSTROUTING -s (\S+) -m comment --comment "name: \\"nomad\\" id: \\"([[:xdigit:]-]+)\\"" -j (CNI-[[:xdigit:]]+)$`)

// forceCleanup removes the first rule of POSTROUTING that is of the allocation on the network
// "nomad", with its chain, and nothing of other networks (v1.6.2 networking_cni.go, forceCleanup).
func forceCleanup(id string) error {
	tables, err := iptables.New()
	if err != nil {
		return fmt.Errorf("failed to detect iptables: %w", err)
	}
	rules, err := tables.List("nat", "POSTROUTING")
	if err != nil {
		return fmt.Errorf("failed to list iptables rules: %w", err)
	}
	for _, rule := range rules {
		match := masqueraded.FindStringSubmatch(rule)
		if match == nil || match[2] != id {
			continue
		}
		address, chain := match[1], match[3]
		comment := fmt.Sprintf("name: \"nomad\" id: %q", id)
		if err := tables.Delete("nat", "POSTROUTING", "-s", address, "-m", "comment", "--comment", comment, "-j", chain); err != nil {
			return fmt.Errorf("failed to cleanup iptables rules for alloc %s: %w", id, err)
		}
		return tables.ClearAndDeleteChain("nat", chain)
	}
	return fmt.Errorf("failed to find postrouting rule for alloc %s", id)
}
