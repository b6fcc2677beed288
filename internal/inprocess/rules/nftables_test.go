// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// published is a table with a rule for each of some attachments.
var published = &netfilter.Table{Family: netfilter.IPv4, Name: "cni_hostport", Chains: []netfilter.Chain{{Name: "hostports"}}}

// publishing returns what publishes a port of each of some attachments, or removes it.
func publishing(remove bool, ids ...string) (all []*Set) {
	for _, id := range ids {
		all = append(all, &Set{Changes: []Change{{Remove: remove, NFTables: &NFTables{
			Table: published, Chains: []string{"hostports"}, Owns: func(comment string) bool { return comment == id },
			Rules: []netfilter.Rule{{Chain: "hostports", Comment: id, Exprs: netfilter.Verdict(expr.VerdictReturn, "")}},
		}}}})
	}
	return all
}

// TestRootRemovalAfterReload: when all rules are loaded anew between the listing of rules and their
// removal, the handles are those of other attachments. Nothing of these is removed.
func TestRootRemovalAfterReload(t *testing.T) {
	roottest.Require(t)
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	err = within.Namespace(netns, func(ns.NetNS) error { // on one thread: what starts goroutines would change the host
		s, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		if err := errors.Join(commitBatch(s, publishing(false, "zero", "one", "two")), commitBatch(s, publishing(true, "zero"))); err != nil {
			return err
		}
		fills := 0
		err = s.Change(func(b *netfilter.Batch) error {
			err := publishing(true, "one")[0].Changes[0].NFTables.change(b, &Set{}, true)
			if fills++; fills > 1 {
				return err
			}
			sandbox.Run(t, "nft", "flush", "ruleset")
			return errors.Join(err, commitBatch(s, publishing(false, "one", "two")))
		})
		if err != nil || fills != 2 {
			t.Errorf("%v, and the batch is filled %d times: want a second time, as the handles were of before the reload", err, fills)
		}
		listed, err := s.List(published, "hostports")
		var left []string
		for _, rule := range listed {
			left = append(left, rule.Comment())
		}
		if !slices.Equal(left, []string{"two"}) {
			t.Errorf("published are %v, want two", left)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootHandles: what the kernel has told of rules finds them without a listing, which would find another rule with the same
// comment, too. Handles that are of other rules by now, or of none, have the chain listed.
func TestRootHandles(t *testing.T) {
	roottest.Require(t)
	place := netfilter.Place(published, "hostports")
	for name, test := range map[string]struct {
		known func(one, two uint64) []uint64
		left  []string
	}{
		"its own":       {func(one, _ uint64) []uint64 { return []uint64{one} }, []string{"two", "one"}},
		"of another":    {func(_, two uint64) []uint64 { return []uint64{two} }, []string{"two"}},
		"of none":       {func(uint64, uint64) []uint64 { return []uint64{99} }, []string{"two"}},
		"one is gone":   {func(one, _ uint64) []uint64 { return []uint64{one, 99} }, []string{"two"}},
		"they are lost": {func(uint64, uint64) []uint64 { return nil }, []string{"two"}},
	} {
		netnstest.Run(t, func() error {
			s, err := netfilter.Dial(t.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			made := publishing(false, "one", "two")
			if err := errors.Join(commitBatch(s, made), commitBatch(s, publishing(false, "one"))); err != nil {
				return err
			}
			one, two := made[0].Handles[place], made[1].Handles[place]
			if len(one) != 1 || len(two) != 1 || one[0] == two[0] {
				return fmt.Errorf("%s: handles are %v and %v", name, one, two)
			}
			removal := publishing(true, "one")
			removal[0].Handles = map[string][]uint64{place: test.known(one[0], two[0])}
			if err := commitBatch(s, removal); err != nil {
				return err
			}
			listed, err := s.List(published, "hostports")
			var left []string
			for _, rule := range listed {
				left = append(left, rule.Comment())
			}
			if !slices.Equal(left, test.left) {
				t.Errorf("%s: left are %v, want %v", name, left, test.left)
			}
			return err
		})
	}
}

// TestRootReplacedRules: an addition replaces what an earlier one has left, and does not list the chain for that if there was none.
func TestRootReplacedRules(t *testing.T) {
	roottest.Require(t)
	for fresh, want := range map[bool][]string{false: {"two", "one"}, true: {"one", "two", "one"}} {
		netnstest.Run(t, func() error {
			s, err := netfilter.Dial(t.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			again := publishing(false, "one")
			again[0].Fresh, again[0].Changes[0].NFTables.Replace = fresh, true
			if err := errors.Join(commitBatch(s, publishing(false, "one", "two")), commitBatch(s, again)); err != nil {
				return err
			}
			listed, err := s.List(published, "hostports")
			var got []string
			for _, rule := range listed {
				got = append(got, rule.Comment())
			}
			if !slices.Equal(got, want) {
				t.Errorf("fresh %t: there are %v, want %v", fresh, got, want)
			}
			return err
		})
	}
}

// TestRootRulesTwice: a reload of what was listed, without a flush before, gives each rule a second time. Its handles find the first of
// an attachment, and DEL removes both: the second would lead to the next allocation that has the address.
func TestRootRulesTwice(t *testing.T) {
	roottest.Require(t)
	shared := []netfilter.Rule{{Chain: "hostports_all", Exprs: netfilter.Verdict(expr.VerdictJump, "hostports")}}
	table := &netfilter.Table{Family: netfilter.IPv4, Name: "cni_hostport", Chains: []netfilter.Chain{{Name: "hostports"}, {Name: "hostports_all", Rules: shared}}}
	publish := func(s *netfilter.Socket, id string, remove bool, handles map[string][]uint64) (map[string][]uint64, error) {
		all := publishing(remove, id)
		all[0].Changes[0].NFTables.Table, all[0].Handles = table, handles
		err := commitBatch(s, all)
		return all[0].Handles, err
	}
	for _, isMadeAgain := range []bool{false, true} {
		netnstest.Run(t, func() error {
			s, err := netfilter.Dial(t.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			handles, err := publish(s, "one", false, nil)
			if err != nil {
				return err
			}
			if output, err := exec.Command("sh", "-ec", `rules=$(nft list ruleset); echo "$rules" | nft -f -`).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			if isMadeAgain {
				if _, err := publish(s, "two", false, nil); err != nil {
					return err
				}
			}
			if _, err := publish(s, "one", true, handles); err != nil {
				return err
			}
			listed, err := s.List(table, "hostports")
			if slices.ContainsFunc(listed, func(rule netfilter.ListedRule) bool { return rule.Comment() == "one" }) {
				t.Errorf("made again %t: a rule of one is left", isMadeAgain)
			}
			return err
		})
	}
}

// TestRootManyRules: of a batch with more rules than the kernel echoes no handle is known.
func TestRootManyRules(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		s, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		many := publishing(false, "one")
		r := many[0].Changes[0].NFTables
		r.Rules = slices.Repeat(r.Rules, 500)
		if err := commitBatch(s, many); err != nil {
			return err
		}
		listed, err := s.List(published, "hostports")
		if len(listed) != 500 || len(many[0].Handles) != 0 {
			t.Errorf("%d rules, handles %v", len(listed), many[0].Handles)
		}
		return err
	})
}

// TestRootLostEchoes: where the answer to a batch does not fit into the socket, it is not known whether the rules were made. They are there
// once, and no handle is guessed.
func TestRootLostEchoes(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		s, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.SetReadBuffer(1); err != nil { // the least that the kernel has
			return err
		}
		var ids []string
		for i := range 30 {
			ids = append(ids, fmt.Sprint("a", i))
		}
		made := publishing(false, ids...)
		if err := commitBatch(s, made); err != nil {
			return err
		}
		listed, err := s.List(published, "hostports")
		if len(listed) != len(ids) {
			t.Errorf("%d rules, want %d", len(listed), len(ids))
		}
		for _, one := range made {
			if len(one.Handles) != 0 {
				t.Errorf("handles %v, want none", one.Handles)
			}
		}
		return err
	})
}

// TestRootLostAnswerAndError: after a batch whose answer was lost, and whose repetition has failed, the rules of each attachment are
// made by themselves. They are there once.
func TestRootLostAnswerAndError(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		s, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.SetReadBuffer(1); err != nil { // the least that the kernel has
			return err
		}
		ids := strings.Fields(strings.Repeat("one ", 30))
		fills := 0
		err = s.Change(func(b *netfilter.Batch) (err error) {
			if fills++; fills > 1 {
				return unix.EIO
			}
			for _, one := range publishing(false, ids...) {
				err = errors.Join(err, one.Changes[0].NFTables.change(b, one, false))
			}
			return err
		})
		if !errors.Is(err, unix.EIO) {
			t.Errorf("%v, want that of the second time", err)
		}
		if err := commitBatch(s, publishing(false, "one")); err != nil {
			return err
		}
		listed, err := s.List(published, "hostports")
		if len(listed) != 1 {
			t.Errorf("%d rules, want 1", len(listed))
		}
		return err
	})
}

// TestRootSameRulesOfTwo: two plugins of a chain may both find the rules of an attachment. DEL removes these once.
func TestRootSameRulesOfTwo(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		s, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		if err := errors.Join(commitBatch(s, publishing(false, "one", "two", "one")), commitBatch(s, publishing(true, "one", "one"))); err != nil {
			return err
		}
		listed, err := s.List(published, "hostports")
		if len(listed) != 1 {
			t.Errorf("%d rules, want that of two", len(listed))
		}
		return err
	})
}

// TestRootDormantTableIsRepaired: a table that sees no packet is missing, and comes back with its rules.
func TestRootDormantTableIsRepaired(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		s, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		if err := commitBatch(s, publishing(false, "one")); err != nil {
			return err
		}
		sandbox.Run(t, "nft", "add table ip cni_hostport { flags dormant; }")
		for _, dryRun := range []bool{true, false} {
			sets := publishing(false, "one")
			if listed, err := List(t.Context(), sets[0]); err != nil || len(listed) != 1 || listed[0].Present {
				t.Errorf("a rule without effect is listed as %+v, %v", listed, err)
			}
			sets[0].Repair = &remedy.Repair{DryRun: dryRun}
			CommitMissing(t.Context(), nil, sets)
			want := []string{"nftables: table ip cni_hostport is dormant, and its rules see no packet"}
			if r := sets[0].Repair; r.Err != nil || !slices.Equal(r.Missing, want) {
				t.Errorf("dry run %t: %v, missing are %q", dryRun, r.Err, r.Missing)
			}
			if dormant, err := s.IsDormant(published); dormant != dryRun || err != nil {
				t.Errorf("dry run %t: dormant %t, %v", dryRun, dormant, err)
			}
		}
		listed, err := s.List(published, "hostports")
		if len(listed) != 1 {
			t.Errorf("%d rules", len(listed))
		}
		return err
	})
}
