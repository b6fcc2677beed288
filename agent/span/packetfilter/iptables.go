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
	"github.com/allocnet/allocnet/doctor/forwarding"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/ipam"
)

const (
	// chainName is that of our chain in the table filter.
	chainName = "ALLOCNET-FORWARD"
	// commentPrefix is before the pool's name in the comments of our rules.
	commentPrefix = "allocnet pool "
	// forwardChain is that of forwarded packets.
	forwardChain = "FORWARD"
	// forwardRule leads to our chain. It is the first one of its chain: another one may decide.
	forwardRule = forwardChain + " -j " + chainName
	// lockWait are the seconds that a program waits for others of its kind.
	lockWait = "30"
)

// plan is what a program has to do.
type plan struct {
	program     string
	transaction string
	// removal is a second transaction, which fails if a rule of others leads to our chain. Empty: none.
	removal string
}

// restore executes a plan, and returns whether that was done.
func (r *round) restore(ctx context.Context, p plan) bool {
	done := true
	for _, text := range []string{p.transaction, p.removal} {
		if text == "" || !done {
			continue
		}
		err := r.system.run(ctx, text, p.program+"-restore", "--noflush", "--wait", lockWait)
		if err != nil && text == p.removal {
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
func planAll(found Found, g Goal) (plans []plan, left bool) {
	for _, l := range found.Listings {
		t := readTable(l.Text)
		want := slices.Concat(rules(found, g.Pools, l.IPv6), t.spared(g.Spared))
		if !t.hasForward {
			want = nil
		}
		left = left || len(want) > 0
		if p := t.plan(want); p.transaction+p.removal != "" {
			p.program = l.Program
			plans = append(plans, p)
		}
	}
	return plans, left
}

// plainName is an interface's name that iptables takes for nothing else.
var plainName = regexp.MustCompile(`^[\w.-]+$`)

// rules returns those of our chain for the pools, of one family.
func rules(found Found, pools []*ipam.Config, ipv6 bool) []string {
	var all []string
	for _, c := range pools {
		interfaces := slices.DeleteFunc(found.Interfaces(c), func(name string) bool { return !plainName.MatchString(name) })
		slices.Sort(interfaces)
		for _, subnet := range c.Subnets() {
			if subnet.Addr().Is6() != ipv6 {
				continue
			}
			for _, name := range append(interfaces, forwarding.Pairs) { // the pairs of new attachments, too
				all = append(all, fmt.Sprintf("-A %s -s %s -d %s -i %s -m comment --comment %q -j ACCEPT", chainName, subnet, subnet, name, commentPrefix+c.Pool))
			}
		}
	}
	return all
}

// table is what matters of the table filter.
type table struct {
	// hasForward and hasChain are whether it has the chain of forwarded packets, and ours.
	hasForward, hasChain bool
	// rules are those of our chain, and jumps those that lead to it from FORWARD.
	rules, jumps []string
	// isFirst is whether the first rule of FORWARD leads to our chain.
	isFirst bool
}

// readTable reads the output of iptables-save.
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
			t.rules = append(t.rules, line.Rule)
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
	words := split(line)
	return len(words) > 2 && slices.Contains([]string{"-j", "-g"}, words[len(words)-2]) && words[len(words)-1] == chainName
}

// split returns the words of a rule; none if it cannot be read.
func split(line string) []string {
	words, err := netfilter.Split(line)
	if err != nil {
		return nil
	}
	return words
}

// spared returns the rules of pools that keep theirs.
func (t table) spared(pools []string) []string {
	return slices.DeleteFunc(slices.Clone(t.rules), func(line string) bool {
		words := split(line)
		i := slices.Index(words, "--comment")
		if i < 0 || i+1 == len(words) {
			return true
		}
		pool, ours := strings.CutPrefix(words[i+1], commentPrefix)
		return !ours || !slices.Contains(pools, pool)
	})
}

// plan returns what iptables-restore needs to make our rules those that are wanted. Empty: they are.
func (t table) plan(want []string) plan {
	switch {
	case len(want) > 0 && t.hasChain && t.has(want) && t.isFirst && len(t.jumps) == 1:
		return plan{}
	case len(want) > 0:
		return plan{transaction: t.transaction(slices.Concat([]string{"-I " + forwardRule}, want))}
	case !t.hasChain:
		return plan{}
	}
	p := plan{removal: transaction("-X " + chainName)}
	if len(t.rules)+len(t.jumps) > 0 {
		p.transaction = t.transaction(nil)
	}
	return p
}

// has is whether our rules are those that are wanted. Their order does not matter.
func (t table) has(want []string) bool {
	sorted := func(rules []string) [][]string {
		var all [][]string
		for _, line := range rules {
			all = append(all, split(line))
		}
		slices.SortFunc(all, slices.Compare[[]string])
		return all
	}
	return slices.EqualFunc(sorted(t.rules), sorted(want), slices.Equal[[]string])
}

// transaction has lines for our chain, empty and called by nothing before.
func (t table) transaction(lines []string) string {
	all := []string{":" + chainName + " - [0:0]"}
	for _, jump := range t.jumps {
		all = append(all, "-D"+strings.TrimPrefix(jump, "-A"))
	}
	return transaction(append(all, lines...)...)
}

func transaction(lines ...string) string {
	return "*filter\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
}
