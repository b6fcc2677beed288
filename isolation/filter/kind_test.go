// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// TestRootFirstOfItsKind: the first attachment that rules select in another way gets sets and chains, and chains of others the lines that are about it. What
// others have is not looked at: what is missing of it is so after that. Apply makes the same.
func TestRootFirstOfItsKind(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	for first, m := range state.Members {
		if m.Job == "batch" { // the first one that is apart on its bridge has all made
			continue
		}
		netnstest.Run(t, func() error {
			addBridges(t, bridgesOf...)
			others := filter.State{Rules: state.Rules, Members: slices.Delete(slices.Clone(state.Members), first, first+1)}
			if err := kernel.Apply(t.Context(), source(others)); err != nil {
				return err
			}
			const missing = "nft delete element bridge allocnet-isolation guarded"
			damaged := others.Members[slices.IndexFunc(others.Members, func(m filter.Member) bool { return m.Antispoof && m.Bridge != "" })]
			run(t, append(strings.Fields(missing), "{", damaged.End, "}")...)
			if err := admit(t, state.Rules, m, source(others)); err != nil {
				return err
			}
			lacks, err := kernel.Lacks(t.Context(), state)
			if len(lacks) != 1 || len(lacks[damaged.ID]) != 1 {
				t.Errorf("%s: missing is %v, want what was missing of %s", m.ID, lacks, damaged.ID)
			}
			err = errors.Join(err, kernel.Apply(t.Context(), source(state)))
			added := slices.Sorted(strings.Lines(listTables(t)))
			run(t, "nft", "flush", "ruleset")
			err = errors.Join(err, kernel.Apply(t.Context(), source(state)))
			if diff := cmp.Diff(slices.Sorted(strings.Lines(listTables(t))), added); diff != "" {
				t.Errorf("%s: added and applied differ: %s", m.ID, diff)
			}
			return err
		})
	}
}

// TestRootFirstOfItsNetwork: the first attachment to a network of the level network beside others gets the chain of that, without rules.
func TestRootFirstOfItsNetwork(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		all := filter.State{Members: []filter.Member{member(1, "web", "n", isolation.Network, "br0"), member(2, "web", "m", isolation.Network, "br1"), member(3, "web", "m", isolation.Network, "br1")}}
		for i := range all.Members {
			so := filter.State{Members: all.Members[:i+1]}
			if err := admit(t, all.Rules, all.Members[i], source(so)); err != nil {
				return err
			}
			requireComplete(t, so)
		}
		return nil
	})
}

// TestRootFirstBesideKindsThatAreGone: a chain that the last attachment of a kind has left behind gets the lines that are about the first one of another
// kind, too: the next one of the former kind finds it and takes it as it is.
func TestRootFirstBesideKindsThatAreGone(t *testing.T) {
	roottest.Require(t)
	selects := func(job string) isolation.Selector { return isolation.Selector{Job: job} }
	rules := isolation.Rules{
		Allow:  []isolation.Allow{{Name: "web reaches db", From: selects("web"), To: selects("db")}},
		Egress: []isolation.Egress{{Name: "batch", From: selects("batch"), To: selects("web")}},
	}
	web, other := member(1, "web", "s", isolation.Strict, "br0"), member(2, "other", "s", isolation.Strict, "br0")
	for number, job := range []string{"db", "batch"} {
		netnstest.Run(t, func() error {
			addBridges(t, bridgesOf...)
			gone := member(3+number, job, "s", isolation.Strict, "br0")
			state := filter.State{Rules: rules}
			add := func(m filter.Member) error {
				state.Members = append(slices.Clone(state.Members), m)
				return admit(t, rules, m, source(state))
			}
			err := errors.Join(add(other), add(gone), kernel.Remove(t.Context(), lazily(rules), gone))
			state.Members = state.Members[:1]
			err = errors.Join(err, add(web), add(gone))
			requireComplete(t, state)
			return err
		})
	}
}

// TestRootFirstAfterOthers: the first attachments of their kinds, one after the other, have nothing made anew, also when those before them are gone; chains of
// those that are there get the lines about them.
func TestRootFirstAfterOthers(t *testing.T) {
	roottest.Require(t)
	state := crowd(100, 40)
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		err := kernel.Apply(t.Context(), source(state))
		asked := 0
		for i := range 5 {
			m := member(1000+i, fmt.Sprintf("job%d", 30+i), "s", isolation.Strict, "br0")
			err = errors.Join(err, admit(t, state.Rules, m, func() (filter.State, error) { asked++; return state, nil }))
			requireComplete(t, filter.State{Rules: state.Rules, Members: append(slices.Clone(state.Members), m)})
			err = errors.Join(err, kernel.Remove(t.Context(), lazily(state.Rules), m))
		}
		for i := range 5 { // each is allowed to reach the one before it
			m := member(1000+i, fmt.Sprintf("job%d", 60-i), "s", isolation.Strict, "br0")
			err = errors.Join(err, admit(t, state.Rules, m, func() (filter.State, error) { asked++; return state, nil }))
			state.Members = append(slices.Clone(state.Members), m)
			requireComplete(t, state)
		}
		if asked != 0 {
			t.Errorf("all that is on record is read %d times, want never", asked)
		}
		return err
	})
}

// TestRootFirstBesideLongNames: a chain of an attachment whose names are longer than comments, and have characters that nft does not read in them, gets the lines
// about the first one of another kind. Without the notes of who has chains, with one of another attachment, or with names that no note has room for, all is made
// anew.
func TestRootFirstBesideLongNames(t *testing.T) {
	roottest.Require(t)
	web, rest := member(2, "web", "s", isolation.Strict, "br0"), member(3, "rest", "s", isolation.Strict, "br0")
	for name, c := range map[string]struct {
		length        int
		damage        func()
		isSeen, isAll bool
	}{
		"long":     {length: 50},
		"too long": {length: 2000, isAll: true},
		"no notes": {50, func() { run(t, "nft", "flush", "set", "inet", "allocnet-isolation", "kinds") }, true, true},
		"another one": {50, func() {
			for _, key := range regexp.MustCompile(`"[ae][0-9a-f]{14}"`).FindAllString(run(t, "nft", "list", "set", "inet", "allocnet-isolation", "kinds"), -1) {
				run(t, "nft", "delete element inet allocnet-isolation kinds { "+key+" }; add element inet allocnet-isolation kinds { "+key+` comment "prod/web" }`)
			}
		}, false, true},
	} {
		long := strings.Repeat("\u00e9 \"/%", c.length)
		rules := isolation.Rules{
			Allow:  []isolation.Allow{{Name: "a", From: isolation.Selector{Job: "web"}, To: isolation.Selector{Namespace: long}}},
			Egress: []isolation.Egress{{Name: "e", From: isolation.Selector{Group: long + "*"}, To: isolation.Selector{Job: "web"}}},
		}
		there := member(1, long, "s", isolation.Strict, "br0")
		there.Namespace, there.Group = long, long+"g"
		netnstest.Run(t, func() error {
			addBridges(t, bridgesOf...)
			state, asked := filter.State{Rules: rules, Members: []filter.Member{rest, there}}, 0
			err := kernel.Apply(t.Context(), source(state))
			if c.damage != nil {
				c.damage()
			}
			lacks, failed := kernel.Lacks(t.Context(), state)
			if len(lacks) > 0 != c.isSeen {
				t.Errorf("%s: missing is %v", name, lacks)
			}
			state.Members = append(state.Members, web)
			err = errors.Join(err, failed, admit(t, rules, web, func() (filter.State, error) { asked++; return state, nil }))
			requireComplete(t, state)
			if asked > 0 != c.isAll {
				t.Errorf("%s: all that is on record is read %d times", name, asked)
			}
			return err
		})
	}
}

// TestRootNotesAreOfNone: to remove all that an attachment has leaves the notes of who has chains, also if a part of one reads as its ID: the first one of another
// kind finds who they are of.
func TestRootNotesAreOfNone(t *testing.T) {
	roottest.Require(t)
	text := strings.Repeat("a", 100)
	there, web := member(1, strings.Repeat(text, 3), "s", isolation.Strict, "br0"), member(2, "web", "s", isolation.Strict, "br0")
	rules := isolation.Rules{Allow: []isolation.Allow{{Name: "a", From: isolation.Selector{Job: "web"}, To: isolation.Selector{Job: there.Job}}}}
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		state := filter.State{Rules: rules, Members: []filter.Member{there}}
		err := errors.Join(kernel.Apply(t.Context(), source(state)), kernel.Remove(t.Context(), lazily(rules), filter.Member{Member: isolation.Member{ID: text}}))
		state.Members = append(state.Members, web)
		err = errors.Join(err, admit(t, rules, web, source(state)))
		requireComplete(t, state)
		return err
	})
}

// TestRootFirstWhileTheLastGoes: the host answers for the first attachment of its kind that is apart on a bridge, also if the last one that was so there goes
// meanwhile, as one whose ADD has failed.
func TestRootFirstWhileTheLastGoes(t *testing.T) {
	roottest.Require(t)
	rules := isolation.Rules{Allow: []isolation.Allow{{Name: "a", From: isolation.Selector{Job: "web"}, To: isolation.Selector{Job: "db"}}}}
	last, first, stays := member(1, "rest", "s", isolation.Strict, "br0"), member(2, "web", "s", isolation.Strict, "br0"), member(3, "rest", "t", isolation.Strict, "br1")
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		for round := range 40 {
			err := kernel.Apply(t.Context(), source(filter.State{Rules: rules, Members: []filter.Member{last, stays}}))
			ns, failed := netns.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
			if err = errors.Join(err, failed); err != nil {
				return err
			}
			var group errgroup.Group
			group.Go(func() error {
				return ns.Do(func() error {
					time.Sleep(time.Duration(round) * 100 * time.Microsecond)
					return kernel.Remove(t.Context(), lazily(rules), last)
				})
			})
			state := filter.State{Rules: rules, Members: []filter.Member{first, stays}}
			err = errors.Join(kernel.Complete(t.Context(), lazily(rules), first, source(state)), group.Wait(), ns.Close())
			if err != nil {
				return err
			}
			requireComplete(t, state)
		}
		return nil
	})
}
