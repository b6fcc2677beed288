// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/state"
)

// Why a program cannot list.
const (
	notInstalled = "is not installed (install it, and repeat this)"
	cannotShow   = "cannot show a table in which another program has rules that iptables does not know (move them to a table of their own, and repeat this)"
)

// unlisted has an error if the kernel has wanted chains that the program cannot list, for a reason.
func (b backend) unlisted(ctx context.Context, h *host, why string, wanted func(chain string) bool) error {
	list := h.programs.nftChains
	if b.isLegacy {
		list = h.programs.legacyChains
	}
	chains, err := list(ctx, b.family)
	if err != nil {
		return fmt.Errorf("%s %s: %w", b.name, why, err)
	}
	chains = slices.DeleteFunc(chains, func(name string) bool { return !wanted(name) })
	if len(chains) == 0 {
		return nil
	}
	slices.Sort(chains)
	// What of them is left by whom is unknown.
	return fmt.Errorf("%s %s, and the kernel has chains of CNI plugins: %s", b.name, why, strings.Join(slices.Compact(chains), ", "))
}

// chainsOf returns the chains of iptables in which an attachment can have rules.
func (c catalog) chainsOf(a state.Attachment) []string {
	var chains []string
	for _, plugin := range pluginTypes(a) {
		for _, l := range c.leavesOf(plugin) {
			for _, p := range l.chains {
				chains = append(chains, p.name.of(ownerOf(a.Network, a.ContainerID, a.Interface)))
			}
			for _, p := range l.rules {
				chains = append(chains, p.chain)
			}
		}
	}
	return chains
}

// ofUnknown tells whether a chain is one attachment's, and of none of the known owners.
func (c catalog) ofUnknown(known []Owner) func(chain string) bool {
	ofKnown := map[string]bool{}
	for l := range c.leaks() {
		for _, p := range l.chains {
			for _, o := range known {
				ofKnown[p.name.of(o)] = true
			}
		}
	}
	return func(chain string) bool {
		for l := range c.leaks() {
			if slices.ContainsFunc(l.chains, func(p chainPattern) bool { return p.name.matches(chain) }) {
				return !ofKnown[chain]
			}
		}
		return false
	}
}

func (system) legacyChains(_ context.Context, family netfilter.Family) ([]string, error) {
	tables, err := netfilter.LegacyTables(family)
	if err != nil {
		return nil, err
	}
	var words []string
	for _, table := range tables {
		entries, err := netfilter.ReadLegacy(family, table)
		if err != nil {
			return nil, err
		}
		words = append(words, strings.Split(string(entries), "\x00")...)
	}
	return words, nil
}

func (system) nftChains(ctx context.Context, family netfilter.Family) ([]string, error) {
	return netfilter.FilledChains(ctx, family)
}
