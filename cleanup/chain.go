// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// chainPattern is an iptables chain that a plugin makes for one attachment, with
// the rules in other chains that lead to it.
type chainPattern struct {
	table string
	name  hashedName
	// comment is that of the rules, with the groups network and id.
	comment *regexp.Regexp
}

// owner returns the owner that a comment names. The chain's name has to say the
// same.
func (p chainPattern) owner(chain, comment string) (Owner, bool) {
	o, _, ok := parseOwner(p.comment, comment)
	return o, ok && chain == p.name.of(o)
}

// rulePattern is rules that a plugin adds to a chain that all allocations share,
// and that name the allocation's address only.
type rulePattern struct {
	table, chain string
	// forms are the rules after the chain's name. ADDRESS is one address with
	// the length of its prefix.
	forms []string
}

func (p rulePattern) address(r rule) (netip.Addr, bool) {
	if r.table != p.table || r.chain != p.chain || len(r.words) < 2 {
		return netip.Addr{}, false
	}
	for _, form := range p.forms {
		words := strings.Fields(form)
		at := slices.Index(words, "ADDRESS")
		if at < 0 || len(r.words) != len(words)+2 {
			continue
		}
		prefix, err := netip.ParsePrefix(r.words[at+2])
		words[at] = r.words[at+2]
		if err == nil && prefix.IsSingleIP() && slices.Equal(words, r.words[2:]) {
			return prefix.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// chain is a chain of one allocation, or only rules of it.
type chain struct {
	backend backend
	table   string
	// name is empty where there are only rules.
	name string
	// rules lead to the chain from others, in the order of the listing.
	rules []rule
	udp   []flow
}

// flow are the flows to ports from first to last that go to an address.
type flow struct {
	first, last uint16
	address     netip.Addr
}

func (l *leak) objects(b backend, s ruleset) []Object {
	var list []Object
	for _, p := range l.chains {
		list = append(list, s.chainObjects(b, l.kind, p)...)
	}
	for _, p := range l.rules {
		list = append(list, s.ruleObjects(b, l.kind, p)...)
	}
	return list
}

func (s ruleset) chainObjects(b backend, kind Kind, p chainPattern) []Object {
	contents, references := s.relate(p.table)
	var objects []Object
	for _, c := range s.chains {
		if c.table != p.table || !p.name.matches(c.name) {
			continue
		}
		o := p.object(c.name, contents[c.name], references[c.name])
		o.Kind, o.chain.backend = kind, b
		o.Where = fmt.Sprintf("%s %s %s", b.name, p.table, c.name)
		objects = append(objects, o)
	}
	return objects
}

// relate returns for every chain of a table the rules in it, and the rules that
// lead to it. A rule that could not be split leads to every chain that it
// mentions.
func (s ruleset) relate(table string) (contents, references map[string][]rule) {
	contents, references = map[string][]rule{}, map[string][]rule{}
	for _, r := range s.rules {
		if r.table != table {
			continue
		}
		contents[r.chain] = append(contents[r.chain], r)
		if r.words != nil {
			references[r.target()] = append(references[r.target()], r)
			continue
		}
		for _, word := range strings.Fields(r.line)[2:] {
			references[word] = append(references[word], r)
		}
	}
	return contents, references
}

func (p chainPattern) object(name string, contents, references []rule) Object {
	o := Object{key: name, Addresses: chainAddresses(contents, references)}
	for _, r := range slices.Concat(contents, references) {
		if owner, ok := p.owner(name, r.option("--comment")); ok {
			o.Owner = owner
		}
	}
	for _, r := range references {
		if _, ok := p.owner(name, r.option("--comment")); !ok {
			o.Blocked = "a rule of another program leads to it: " + r.line
		}
	}
	o.chain = &chain{table: p.table, name: name, rules: references, udp: udpFlows(contents)}
	return o
}

// chainAddresses returns the allocation's addresses: the source of what is
// masqueraded, the destination of what is forwarded.
func chainAddresses(contents, references []rule) []netip.Addr {
	var list []netip.Addr
	add := func(text string) {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.IsSingleIP() {
			list = append(list, prefix.Addr())
		} else if port, err := netip.ParseAddrPort(text); err == nil {
			list = append(list, port.Addr())
		} else if address, err := netip.ParseAddr(text); err == nil { // that of a range of ports
			list = append(list, address)
		}
	}
	for _, r := range references {
		add(r.option("-s"))
	}
	for _, r := range contents {
		add(r.option("--to-destination"))
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

func udpFlows(contents []rule) []flow {
	var list []flow
	for _, r := range contents {
		if r.option("-p") != "udp" || r.target() != "DNAT" {
			continue
		}
		to, err := netip.ParseAddr(r.option("--to-destination"))
		if with, errPort := netip.ParseAddrPort(r.option("--to-destination")); errPort == nil {
			to, err = with.Addr(), nil
		}
		first, last, ok := portsOf(r.option("--dport"))
		if err == nil && ok {
			list = append(list, flow{first, last, to})
		}
	}
	return list
}

// portsOf reads a port of iptables, or a range as 10000:10199.
func portsOf(text string) (first, last uint16, ok bool) {
	from, to, isRange := strings.Cut(text, ":")
	if !isRange {
		to = from
	}
	low, errLow := strconv.ParseUint(from, 10, 16)
	high, errHigh := strconv.ParseUint(to, 10, 16)
	return uint16(low), uint16(high), errLow == nil && errHigh == nil
}

func (s ruleset) ruleObjects(b backend, kind Kind, p rulePattern) []Object {
	var objects []Object
	for _, r := range s.rules {
		if address, ok := p.address(r); ok {
			objects = append(objects, Object{
				Kind: kind, Addresses: []netip.Addr{address}, addressOnly: true,
				Where: fmt.Sprintf("%s %s %s %s", b.name, p.table, p.chain, address),
				chain: &chain{backend: b, table: p.table, rules: []rule{r}},
			})
		}
	}
	return objects
}

type rule struct {
	table, chain string
	line         string
	number       int
	// words are those of the line from -A on; nil for a line that could not
	// be split.
	words []string
}

func (r rule) option(names ...string) string { return netfilter.Option(r.words, names...) }

func (r rule) target() string { return r.option("-j", "-g") }

// ruleset is the part of iptables-save's output that a catalogue is about.
type ruleset struct {
	chains   []chainName
	rules    []rule
	problems []error
}

type chainName struct{ table, name string }

// parseRules reads the output of iptables-save: all chains, and the rules that
// mention one of the texts. A rule that cannot be split is kept without words
// and named in problems.
func parseRules(text string, mentions []string) ruleset {
	var s ruleset
	for line := range netfilter.Lines(text) {
		switch {
		case line.Policy != "":
			s.chains = append(s.chains, chainName{line.Table, line.Chain})
		case slices.ContainsFunc(mentions, func(text string) bool { return strings.Contains(line.Rule, text) }):
			s.add(line)
		}
	}
	return s
}

func (s *ruleset) add(line netfilter.Line) {
	r := rule{table: line.Table, chain: line.Chain, line: line.Rule, number: len(s.rules)}
	words, err := netfilter.Split(line.Rule)
	if err != nil {
		s.problems = append(s.problems, fmt.Errorf("rule %q: %w", line.Rule, err))
	} else if r.words = words; len(words) > 1 {
		r.chain = words[1]
	}
	s.rules = append(s.rules, r)
}

// mentions returns the texts of which each rule about the catalogue's chains has one.
func (c catalog) mentions() []string {
	var texts []string
	for l := range c.leaks() {
		for _, p := range l.chains {
			texts = append(texts, p.name.prefix)
		}
		for _, p := range l.rules {
			texts = append(texts, p.chain)
		}
	}
	slices.Sort(texts) // a text comes before those that it begins
	return slices.CompactFunc(texts, func(a, b string) bool { return strings.HasPrefix(b, a) })
}
