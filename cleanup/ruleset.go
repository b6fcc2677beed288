// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// rule is a line of iptables-save.
type rule struct {
	table, chain string
	line         string
	// number is its place in the listing.
	number int
	// words are those of the line from -A on; nil for a line that could not
	// be split.
	words []string
}

// option returns the word after the first of the names.
func (r rule) option(names ...string) string {
	for i, word := range r.words[:max(0, len(r.words)-1)] {
		if slices.Contains(names, word) {
			return r.words[i+1]
		}
	}
	return ""
}

func (r rule) target() string { return r.option("-j", "-g") }

// parseRules reads the output of iptables-save as far as it matters here: the
// chains of the nat table, and the rules that mention CNI. A rule that cannot be
// split is returned without words and named in problems.
func parseRules(text string) (chains []string, rules []rule, problems []error) {
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case strings.HasPrefix(line, ":") && table == "nat":
			name, _, _ := strings.Cut(line[1:], " ")
			chains = append(chains, name)
		case strings.HasPrefix(line, "-A ") && strings.Contains(line, "CNI-"):
			r := rule{table: table, line: line, number: len(rules), chain: strings.Fields(line)[1]}
			var err error
			if r.words, err = splitWords(line); err != nil {
				problems = append(problems, fmt.Errorf("rule %q: %w", line, err))
			} else {
				r.chain = r.words[1]
			}
			rules = append(rules, r)
		}
	}
	return chains, rules, problems
}

// splitWords splits a line as iptables-restore does: at blanks, except in
// double quotes, where a backslash takes the next character as it is.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted, escaped, begun := false, false, false
	for _, c := range []byte(line) { // a comment need not be UTF-8
		switch {
		case escaped:
			word.WriteByte(c)
			escaped = false
		case c == '\\' && quoted:
			escaped = true
		case c == '"':
			quoted, begun = !quoted, true
		case (c == ' ' || c == '\t') && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// chain is a chain of one allocation, or only rules of it.
type chain struct {
	backend backend
	table   string
	// name is empty where there are only rules.
	name string
	// rules lead to the chain from others, in the order of the listing.
	rules []rule
	// udp are the ports that the chain publishes.
	udp []flow
}

// flow is a published UDP port.
type flow struct {
	port    uint16
	address netip.Addr
}

// allocationChains makes objects of the chains that belong to one allocation.
func allocationChains(b backend, chains []string, rules []rule) []Object {
	inside, references := relate(rules)
	var objects []Object
	for _, name := range chains {
		if chainForm.MatchString(name) {
			objects = append(objects, chainObject(b, name, inside[name], references[name]))
		}
	}
	return objects
}

// relate returns for every chain of the nat table the rules in it, and the
// rules that lead to it. A rule that could not be split leads to every chain
// that it mentions.
func relate(rules []rule) (inside, references map[string][]rule) {
	inside, references = map[string][]rule{}, map[string][]rule{}
	for _, r := range rules {
		if r.table != "nat" {
			continue
		}
		inside[r.chain] = append(inside[r.chain], r)
		if r.words != nil {
			references[r.target()] = append(references[r.target()], r)
			continue
		}
		for _, word := range strings.Fields(r.line)[2:] {
			references[word] = append(references[word], r)
		}
	}
	return inside, references
}

func chainObject(b backend, name string, inside, references []rule) Object {
	o := Object{Kind: Masquerade, key: name, Where: b.name + " nat " + name}
	if strings.HasPrefix(name, "CNI-DN-") {
		o.Kind = Ports
	}
	for _, r := range slices.Concat(inside, references) {
		if owner, ok := chainOwner(name, r.option("--comment")); ok {
			o.Owner = owner
		}
	}
	for _, r := range references {
		if _, ok := chainOwner(name, r.option("--comment")); !ok {
			o.Blocked = "a rule of somebody else leads to it: " + r.line
		}
	}
	o.Addresses = chainAddresses(inside, references)
	o.chain = &chain{backend: b, table: "nat", name: name, rules: references, udp: udpFlows(inside)}
	return o
}

// chainAddresses returns the allocation's addresses: the source of what is
// masqueraded, the destination of what is forwarded.
func chainAddresses(inside, references []rule) []netip.Addr {
	var list []netip.Addr
	add := func(text string) {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.IsSingleIP() {
			list = append(list, prefix.Addr())
		} else if port, err := netip.ParseAddrPort(text); err == nil {
			list = append(list, port.Addr())
		}
	}
	for _, r := range references {
		add(r.option("-s"))
	}
	for _, r := range inside {
		add(r.option("--to-destination"))
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

func udpFlows(inside []rule) []flow {
	var list []flow
	for _, r := range inside {
		if r.option("-p") != "udp" || r.target() != "DNAT" {
			continue
		}
		to, err := netip.ParseAddrPort(r.option("--to-destination"))
		port, portErr := strconv.ParseUint(r.option("--dport"), 10, 16)
		if err == nil && portErr == nil {
			list = append(list, flow{uint16(port), to.Addr()})
		}
	}
	return list
}

// firewallRules makes objects of the rules of the firewall plugin, which it
// writes in two forms.
func firewallRules(b backend, rules []rule) []Object {
	var objects []Object
	for _, r := range rules {
		if r.table != "filter" || r.chain != "CNI-FORWARD" {
			continue
		}
		address, ok := firewallAddress(r.words)
		if !ok {
			continue
		}
		objects = append(objects, Object{
			Kind: Firewall, Addresses: []netip.Addr{address},
			Where: fmt.Sprintf("%s filter CNI-FORWARD %s", b.name, address),
			chain: &chain{backend: b, table: "filter", rules: []rule{r}},
		})
	}
	return objects
}

func firewallAddress(words []string) (netip.Addr, bool) {
	if len(words) < 4 {
		return netip.Addr{}, false
	}
	prefix, err := netip.ParsePrefix(words[3])
	if err != nil || !prefix.IsSingleIP() {
		return netip.Addr{}, false
	}
	switch rest := strings.Join(words[4:], " "); words[2] {
	case "-s":
		return prefix.Addr(), rest == "-j ACCEPT"
	case "-d":
		return prefix.Addr(), rest == "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
	}
	return netip.Addr{}, false
}
