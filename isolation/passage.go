// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Passage is what passes between an attachment and a peer, or does not.
type Passage struct {
	Allowed bool `json:"allowed"`
	// Peer is where it comes from or goes to, in words.
	Peer string `json:"peer"`
	// Ports are those of the destination. Empty: all protocols.
	Ports []string `json:"ports,omitempty"`
	// By is what says so, and Line that of the rule in the file; 0: it is not one of the file.
	By   string `json:"by"`
	Line int    `json:"line,omitempty"`
}

// ReachedBy returns what reaches an attachment, and what does not: of a flow the first that fits decides. Published ports, which
// come after the rules allow, are not among it.
func ReachedBy(r Rules, m Member) []Passage {
	all := ofIngress(m)
	for _, a := range r.Allow {
		if isSelected(a.To, m) && (!a.From.Host || !m.Inside) {
			all = append(all, a.passage(a.From))
		}
	}
	if m.Inside {
		return append(all, byLevel(m, Passage{Allowed: m.Level != Strict, Peer: "this host, and everything else"})...)
	}
	host := Passage{Allowed: true, Peer: "this host", By: "it is on this host"}
	if m.NoHost {
		host = Passage{Peer: "this host", By: fmt.Sprintf("fromHost false of network %q", m.Network)}
	}
	all = append(all, host)
	return append(all, byLevel(m, Passage{Allowed: m.Level != Strict, Peer: "everything else"})...)
}

// Reaches returns what an attachment reaches, and what it does not, in the same way.
func Reaches(r Rules, m Member) []Passage {
	all := ofEgress(m)
	for _, a := range r.Allow {
		if isSelected(a.From, m) {
			all = append(all, a.passage(a.To))
		}
	}
	if limit, limited := limitOf(r, m); limited {
		all = append(all, limit)
	}
	return append(all, byLevel(m, Passage{Allowed: true, Peer: "this host, and everything else"})...)
}

// Selecting returns the names of the rules that select an attachment, or one of its addresses, on either side.
func (r Rules) Selecting(m Member) (names []string) {
	for _, a := range r.Allow {
		if isSelected(a.From, m) || isSelected(a.To, m) {
			names = append(names, a.Name)
		}
	}
	for _, e := range r.Egress {
		if e.From.selects(m) {
			names = append(names, e.Name)
		}
	}
	return names
}

// isSelected tells whether a selector selects an attachment, or one of its addresses.
func isSelected(s Selector, m Member) bool {
	return s.selects(m) || slices.ContainsFunc(m.Addresses, s.selectsAddress)
}

func (a Allow) passage(peer Selector) Passage {
	return Passage{true, peer.String(), textsOf(a.Ports), fmt.Sprintf("allow %q", a.Name), a.Line}
}

func textsOf(ports []Ports) []string {
	var texts []string
	for _, p := range ports {
		texts = append(texts, p.String())
	}
	return texts
}

// limitOf is what the rules egress that select an attachment deny, if there are any.
func limitOf(r Rules, m Member) (limit Passage, limited bool) {
	var reached, by []string
	for _, e := range r.Egress {
		if e.From.selects(m) {
			reached, by = append(reached, e.String()), append(by, fmt.Sprintf("egress %q", e.Name))
			limit.Line = cmp.Or(limit.Line, e.Line)
		}
	}
	limit.Peer, limit.By = "everything but "+strings.Join(reached, ", "), strings.Join(by, ", ")
	return limit, len(by) > 0
}

// byLevel is what levels decide, and last what they have nothing against.
func byLevel(m Member, last Passage) []Passage {
	by := fmt.Sprintf("isolation %q of network %q", cmp.Or(m.Level, None), m.Network)
	last.By = by
	own := Passage{Allowed: m.Level != Strict, Peer: "attachments of its network", By: by}
	others := Passage{Peer: "attachments of other networks", By: by}
	if m.Level != Network && m.Level != Strict {
		open := Passage{Allowed: true, Peer: "attachments of networks without isolation", By: by}
		others.By = "their isolation"
		return []Passage{own, open, others, last}
	}
	return []Passage{own, others, last}
}
