// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/exhaustive"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// effect is what decides in the tables: elements by their sets, and rules by their chains. Sets of selectors and networks that are empty, rules that look into
// these, and chains to which nothing leads decide nothing.
type effect map[string][]string

// isOfKinds and isEmptied are names of what is there for some attachments only, and of those sets without which a line about them is not needed.
var isOfKinds = regexp.MustCompile(`^[^ ]* (allow-|egress-|is-|net-|in-|to-|narrowed-(from|to)-)`)

var isEmptied = regexp.MustCompile(`^(is-|net-[0-9a-f]*-[46]$)`)

func effectOf(t *testing.T) effect {
	t.Helper()
	var listed struct {
		Nftables []map[string]map[string]any `json:"nftables"`
	}
	text := regexp.MustCompile(`, "handle": *\d+`).ReplaceAllString(run(t, "nft", "-n", "-j", "list", "ruleset"), "")
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	all := effect{}
	for _, object := range listed.Nftables {
		for kind, o := range object {
			name := fmt.Sprintf("%v %v", o["family"], o["name"])
			switch kind {
			case "set", "map":
				if o["name"] == "kinds" || strings.HasSuffix(name, "links") { // a bridge that no attachment has any more has no packets
					continue
				}
				all[name] = []string{}
				elements, _ := o["elem"].([]any)
				for _, e := range elements {
					data, _ := json.Marshal(e)
					all[name] = append(all[name], string(data))
				}
				slices.Sort(all[name])
			case "chain":
				all[name] = append([]string{}, all[name]...)
			case "rule":
				name = fmt.Sprintf("%v %v", o["family"], o["chain"])
				data, _ := json.Marshal(o["expr"])
				all[name] = append(all[name], fmt.Sprint(o["comment"])+string(data))
			}
		}
	}
	all.prune()
	return all
}

// prune removes what decides nothing.
func (all effect) prune() {
	for changed := true; changed; {
		changed = false
		for name := range all {
			_, short, _ := strings.Cut(name, " ")
			isSet, isUsed := isEmptied.MatchString(short), false
			for other, lines := range all {
				all[other] = slices.DeleteFunc(lines, func(line string) bool {
					gone := isSet && len(all[name]) == 0 && strings.Contains(line, `"@`+short+`"`)
					changed = changed || gone
					isUsed = isUsed || !gone && (strings.Contains(line, `"`+short+`"`) || strings.Contains(line, `"@`+short+`"`))
					return gone
				})
			}
			if isOfKinds.MatchString(name) && !isUsed {
				delete(all, name)
				changed = true
			}
		}
	}
}

// addSameBridges makes bridges that have the same MACs each time.
func addSameBridges(t *testing.T) {
	t.Helper()
	for i, name := range bridgesOf {
		run(t, "ip", "link", "add", name, "address", fmt.Sprintf("02:00:00:00:99:%02x", i), "type", "bridge")
	}
}

// pick returns one of some.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomSelector(r *rand.Rand, isSource bool) (s isolation.Selector) {
	switch r.IntN(10) {
	case 0:
		s.CIDRs = pick(r, cidrs("10.0.0.0/8"), cidrs("10.0.0.2/32", "2001:db8::2/128"), cidrs("0.0.0.0/0", "::/0"))
		return s
	case 1:
		s.Host = isSource
		return s
	}
	switch pattern := pick(r, "a", "b", "c", "a*", "*b", "*"); r.IntN(6) {
	case 0:
		s.Network = pick(r, "s", "n", "*")
	case 1:
		s.Job, s.Group = pattern, pick(r, "g", "x*")
	case 2:
		s.Job, s.Namespace = pattern, pick(r, "prod", "p*d")
	default:
		s.Job = pattern
	}
	return s
}

func randomRules(r *rand.Rand) (rules isolation.Rules) {
	ports := func() []isolation.Ports {
		return pick(r, nil, []isolation.Ports{{Protocol: "tcp", First: 80, Last: 90}, {Protocol: "icmp"}})
	}
	for i := range 2 + r.IntN(6) {
		rules.Allow = append(rules.Allow, isolation.Allow{Name: fmt.Sprint("a", i), From: randomSelector(r, true), To: randomSelector(r, false), Ports: ports()})
	}
	for i := range r.IntN(3) {
		e := isolation.Egress{Name: fmt.Sprint("e", i), From: randomSelector(r, false), To: randomSelector(r, false), Ports: ports(), DNS: r.IntN(3) == 0}
		e.From.CIDRs, e.From.Host = nil, false
		rules.Egress = append(rules.Egress, e)
	}
	return rules
}

func randomMember(r *rand.Rand, number int) filter.Member {
	n := r.IntN(5)
	m := member(number, pick(r, "a", "b", "ab", "c", "d", "a\x00\xffb", "", "*"), []string{"s", "n", "n2", "o", "p"}[n],
		[]isolation.Level{isolation.Strict, isolation.Network, isolation.Network, isolation.None, isolation.Strict}[n], []string{"br0", "br1", "", "br2", ""}[n])
	m.Group, m.Namespace = pick(r, "g", "xy", "", strings.Repeat("g/ \"", 60)), pick(r, "prod", "prod", "pd", "")
	if r.IntN(4) == 0 {
		m = narrowed(m, pick(r, "", "none", "80/tcp"), pick(r, "", "dns, 10.0.0.0/8"))
	}
	return m
}

// fixed are attachments that stay, and have the host answer on all bridges.
func fixed() (all []filter.Member) {
	for i, name := range bridgesOf {
		all = append(all, narrowed(member(1+i, "fixed", []string{"s", "n", "o"}[i], []isolation.Level{isolation.Strict, isolation.Network, isolation.None}[i], name), "none", ""))
	}
	return all
}

func randomRemotes(r *rand.Rand) (all []filter.Member) {
	for i := range r.IntN(5) {
		m := randomMember(r, 1000+i)
		at := isolation.Remote{Host: "far", Network: m.Network, Level: m.Level, Namespace: m.Namespace, Job: m.Job, Group: m.Group, Addresses: []netip.Addr{m.Addresses[r.IntN(2)]}, Via: "vx0"}
		for _, m := range at.Members() {
			all = append(all, filter.Member{Member: m, Via: at.Via})
		}
	}
	return all
}

// sequence are changes of what a host keeps apart, one after the other.
type sequence struct {
	*rand.Rand
	filter.State

	local, remotes []filter.Member
	log            []string
	// asked counts how often all on record was read.
	asked int
}

func (s *sequence) read() (filter.State, error) {
	s.asked++
	return s.State, nil
}

// know has the state have the attachments of this host and others, and logs what changes.
func (s *sequence) know(text string, of any) {
	s.Members = slices.Concat(s.local, s.remotes)
	s.log = append(s.log, fmt.Sprintf("%s %+v", text, of))
}

func (s *sequence) step(t *testing.T, number int) error {
	t.Helper()
	switch what := s.IntN(20); {
	case what < 10 || len(s.local) == len(bridgesOf):
		m := randomMember(s.Rand, number)
		s.local = append(slices.Clone(s.local), m)
		s.know("add", m.Member)
		return admit(t, s.Rules, m, s.read)
	case what < 18:
		i := len(bridgesOf) + s.IntN(len(s.local)-len(bridgesOf))
		m := s.local[i]
		s.local = slices.Delete(slices.Clone(s.local), i, i+1)
		s.know("remove", m.ID)
		return kernel.Remove(t.Context(), lazily(s.Rules), m)
	case what < 19:
		before := s.remotes
		s.remotes = randomRemotes(s.Rand)
		s.know("remotes", s.remotes)
		return kernel.Change(t.Context(), s.Rules, before, s.remotes, s.read)
	default:
		s.Rules = randomRules(s.Rand)
		s.know("rules", s.Rules)
		return kernel.Apply(t.Context(), source(s.State))
	}
}

// TestRootSequences: after random changes, one after the other, the tables decide as those that are made of the state at once. Most changes do not read what is on
// record.
func TestRootSequences(t *testing.T) {
	roottest.Require(t)
	const steps = 12
	asked, count := 0, exhaustive.Count(64)
	for seed := range count {
		s := sequence{Rand: rand.New(rand.NewPCG(seed, 1)), local: fixed()}
		s.Rules = randomRules(s.Rand)
		s.know("rules", s.Rules)
		var got, want effect
		netnstest.Run(t, func() error {
			addSameBridges(t)
			err := kernel.Apply(t.Context(), source(s.State))
			for i := range steps {
				err = errors.Join(err, s.step(t, 100+i))
			}
			got = effectOf(t)
			return err
		})
		netnstest.Run(t, func() error {
			addSameBridges(t)
			err := kernel.Apply(t.Context(), source(s.State))
			want = effectOf(t)
			return err
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: %s\n%s", seed, strings.Join(s.log, "\n"), diff)
		}
		asked += s.asked
	}
	if most := int(count) * steps / 8; asked > most { //nolint:gosec // it is small
		t.Errorf("what is on record is read %d times, want at most %d", asked, most)
	}
}
