// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package packetfilter

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/netfilter"
)

const (
	// chainName is that of our chain in the table filter.
	chainName = "ALLOCNET-FORWARD"
	// commentPrefix is before the pool's name in the comments of our rules.
	commentPrefix = "allocnet pool "
	forwardChain  = "FORWARD"
)

type plan struct {
	program string
	// change is done first. The removal fails if a rule of others leads to our chain. Empty: there is none.
	change, removal netfilter.Transaction
}

func (r *round) restore(ctx context.Context, p *plan) bool {
	done := true
	for _, t := range []*netfilter.Transaction{&p.change, &p.removal} {
		if t.String() == "" || !done {
			continue
		}
		err := t.Restore(ctx, r.system.run, p.program)
		if err != nil && t == &p.removal {
			err = fmt.Errorf("the chain %s stays, empty: remove the rules of others that lead to it: %w", chainName, err)
		}
		done = r.did(p.program, err)
	}
	return done
}

// HasRules is whether there is something of ours.
func HasRules(listings []cleanup.Listing) bool {
	return slices.ContainsFunc(listings, func(l cleanup.Listing) bool { return readTable(l.Text).hasChain })
}

// planAll returns what makes the rules of the host those of the goal, and whether it has some of ours
// then.
func planAll(found Found, g Goal) (plans []*plan, left bool) {
	for _, l := range found.Listings {
		t := readTable(l.Text)
		want := slices.Concat(rules(found, g.Pools, l.IPv6), t.spared(g.Spared))
		if !t.hasForward {
			want = nil
		}
		left = left || len(want) > 0
		if p := t.plan(want); p.change.String()+p.removal.String() != "" {
			p.program = l.Program
			plans = append(plans, p)
		}
	}
	return plans, left
}

// plainName is an interface's name that iptables takes for nothing else.
var plainName = regexp.MustCompile(`^[\w.-]+$`)

// rules returns those of our chain for the pools, of one family, without its name.
func rules(found Found, pools []*ipam.Config, ipv6 bool) [][]string {
	var all [][]string
	for _, c := range pools {
		interfaces := slices.DeleteFunc(found.Interfaces(c), func(name string) bool { return !plainName.MatchString(name) })
		slices.Sort(interfaces)
		for _, subnet := range c.Subnets() {
			if subnet.Addr().Is6() != ipv6 {
				continue
			}
			for _, name := range append(interfaces, forwarding.Pairs) { // the pairs of new attachments, too
				all = append(all, []string{"-s", subnet.String(), "-d", subnet.String(), "-i", name, "-m", "comment", "--comment", commentPrefix + c.Pool, "-j", "ACCEPT"})
			}
		}
	}
	return all
}

type table struct {
	// hasForward and hasChain are whether it has the chain of forwarded packets, and ours.
	hasForward, hasChain bool
	// rules are those of our chain, without its name. One that cannot be read is nil.
	rules [][]string
	// jumps are those that lead to it from FORWARD, as they were printed.
	jumps []string
	// isFirst is whether the first rule of FORWARD leads to our chain.
	isFirst bool
}

func readTable(text string) table {
	var t table
	inForward := false
	for line := range netfilter.Lines(text) {
		switch {
		case line.Table != "filter":
		case line.Policy != "":
			t.hasForward = t.hasForward || line.Chain == forwardChain
			t.hasChain = t.hasChain || line.Chain == chainName
		case line.Chain == chainName:
			t.rules = append(t.rules, arguments(line.Rule))
		case line.Chain == forwardChain:
			if isJump(line.Rule) {
				t.jumps = append(t.jumps, line.Rule)
				t.isFirst = t.isFirst || !inForward
			}
			inForward = true
		}
	}
	return t
}

// isJump is whether a rule leads to our chain.
func isJump(line string) bool {
	words := arguments(line)
	return len(words) > 1 && slices.Contains([]string{"-j", "-g"}, words[len(words)-2]) && words[len(words)-1] == chainName
}

// arguments returns the words of a rule behind its chain; nil if it cannot be read.
func arguments(line string) []string {
	words, err := netfilter.Split(line)
	if err != nil {
		return nil
	}
	return words[min(2, len(words)):]
}

func (t table) spared(pools []string) [][]string {
	return slices.DeleteFunc(slices.Clone(t.rules), func(words []string) bool {
		pool, ours := strings.CutPrefix(netfilter.Option(words, "--comment"), commentPrefix)
		return !ours || !slices.Contains(pools, pool)
	})
}

// plan returns what makes our rules those that are wanted. Empty: they are.
func (t table) plan(want [][]string) *plan {
	p := &plan{}
	if t.has(want) {
		return p
	}
	var change, removal netfilter.Transaction
	if len(want)+len(t.rules)+len(t.jumps) > 0 { // our chain, empty and called by nothing before
		change.Empty(chainName)
	}
	for _, jump := range t.jumps {
		change.Delete(jump)
	}
	if len(want) == 0 {
		removal.Line("-X", chainName)
	} else { // it is called first: another rule may decide
		change.Line("-I", forwardChain, "-j", chainName)
	}
	for _, words := range want {
		change.Line("-A", chainName, words...)
	}
	p.change.Table("filter", &change)
	p.removal.Table("filter", &removal)
	return p
}

// has is whether our rules are those that are wanted, and called first. Their order does not matter.
func (t table) has(want [][]string) bool {
	if len(want) == 0 || !t.hasChain {
		return len(want) == 0 && !t.hasChain
	}
	sorted := func(rules [][]string) [][]string {
		return slices.SortedFunc(slices.Values(rules), slices.Compare[[]string])
	}
	return t.isFirst && len(t.jumps) == 1 && slices.EqualFunc(sorted(t.rules), sorted(want), slices.Equal[[]string])
}
