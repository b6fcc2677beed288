// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"bytes"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// listing is what the kernel has of a table; nil: there is no such table.
type listing struct {
	sets map[string]map[string]netfilter.Element
	// chains have the comments of their rules: nothing changes a rule but to replace it.
	chains map[string][]string
	// dormant is whether the table sees no packet. To add it again wakes it.
	dormant bool
}

// list lists a table with the elements of its sets.
func list(s *netfilter.Socket, t *netfilter.Table) (*listing, error) {
	l, err := listForm(s, t)
	if err != nil || l == nil {
		return nil, err
	}
	for set := range l.sets {
		elements, err := s.Elements(t, set)
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			l.sets[set][identity(e)] = e
		}
	}
	return l, nil
}

// listForm lists a table without those.
func listForm(s *netfilter.Socket, t *netfilter.Table) (*listing, error) {
	tables, err := s.Tables(t.Family)
	if err != nil || !slices.Contains(tables, t.Name) {
		return nil, err
	}
	l, err := listNames(s, t)
	if err != nil {
		return nil, err
	}
	if l.dormant, err = s.IsDormant(t); err != nil {
		return nil, err
	}
	rules, err := s.RulesOf(t)
	if err != nil {
		return nil, err
	}
	for chain := range l.chains {
		for _, r := range rules[chain] {
			l.chains[chain] = append(l.chains[chain], r.Comment())
		}
	}
	return l, nil
}

// listNames lists the sets and chains of a table, without what is in them; none if there is no such table.
func listNames(s *netfilter.Socket, t *netfilter.Table) (*listing, error) {
	l := &listing{sets: map[string]map[string]netfilter.Element{}, chains: map[string][]string{}}
	chains, err := s.Chains(t)
	if err != nil {
		return nil, err
	}
	for _, chain := range chains {
		l.chains[chain] = nil
	}
	sets, err := s.KeySets(t)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		l.sets[set] = map[string]netfilter.Element{}
	}
	return l, nil
}

// listAll lists both tables.
func listAll(s *netfilter.Socket) (map[netfilter.Family]*listing, error) {
	found := map[netfilter.Family]*listing{}
	for _, f := range families {
		l, err := list(s, &netfilter.Table{Family: f, Name: name})
		if err != nil {
			return nil, err
		}
		found[f] = l
	}
	return found, nil
}

// lacksChain tells whether a chain is not as it has to be.
func (l *listing) lacksChain(c *netfilter.Chain) bool {
	comments, ok := l.chains[c.Name]
	return !ok || !slices.EqualFunc(comments, c.Rules, func(comment string, r netfilter.Rule) bool { return comment == r.Comment })
}

// lacksElement tells whether an element is missing, or has another verdict, value or comment.
func (l *listing) lacksElement(set string, e netfilter.Element) bool {
	found, ok := l.sets[set][identity(e)]
	return !ok || differs(found, e)
}

// differs tells whether one element of a set is not as another one with its key.
func differs(a, b netfilter.Element) bool {
	return a.Verdict != b.Verdict || a.Chain != b.Chain || !bytes.Equal(a.Data, b.Data) || a.Comment != b.Comment
}

// selectorSets are the names of the sets of selectors, without their family.
func (l *listing) selectorSets() (names []string) {
	for set := range l.sets {
		if name, ok := strings.CutSuffix(set, ip4.suffix); ok && strings.HasPrefix(set, selectorPrefix) && l.sets[name+ip6.suffix] != nil {
			names = append(names, name)
		}
	}
	return names
}
