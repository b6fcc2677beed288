// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"slices"
)

// Decision is what becomes of a flow.
type Decision struct {
	Allowed bool
	// Rule is which of those in the comment of this package decided.
	Rule int
	// By is the rule of the file, as `allow "web reaches db"`, and Line its line. Empty: none decided.
	By   string
	Line int
	// Text says why.
	Text string
}

// Decide tells what becomes of a flow between ends of which the members are known. The filter of the kernel does the same by
// other means.
func Decide(r Rules, members []Member, f Flow) Decision {
	q := question{r, f, f.From.Member(members), f.To.Member(members)}
	if q.to != nil && q.to.Inside {
		q.flow.From.Host, q.flow.Published = false, false
	}
	d := q.decide()
	if !d.Allowed || q.from == nil || q.to == nil || q.from.Inside == q.to.Inside {
		return d
	}
	switch { // the host of the other end does not know this one
	case q.from.Inside && q.to.Link != "":
		q.from = nil
	case q.to.Inside && q.from.Link != "":
		q.to = nil
	}
	if other := q.decide(); !other.Allowed {
		return other
	}
	return d
}

func (q question) decide() Decision {
	for _, ask := range []func() (Decision, bool){q.isNarrowed, q.isAllowed, q.isLimited, q.isPublished, q.isFromHost, q.isApart, q.isStrict, q.isFromElsewhere} {
		if d, decided := ask(); decided {
			return d
		}
	}
	return Decision{Allowed: true, Rule: 8, Text: "nothing denies it"}
}

// AreRouted tells whether the host routes what passes between two attachments. Those on one bridge that are not apart pass there by
// themselves.
func (r Rules) AreRouted(a, b Member) bool {
	return a.Link != b.Link || r.isApart(a) || r.isApart(b)
}

// isApart tells whether an attachment reaches its neighbours only by the host.
func (r Rules) isApart(m Member) bool {
	return m.Level == Strict || m.IsNarrowed() || slices.ContainsFunc(r.Egress, func(e Egress) bool { return e.From.selects(m) })
}

// question is a flow with the attachments that its ends are, which may be nil.
type question struct {
	rules    Rules
	flow     Flow
	from, to *Member
}

func (q question) isAllowed() (Decision, bool) {
	for _, a := range q.rules.Allow {
		if covers(a.From, q.from, q.flow.From) && covers(a.To, q.to, q.flow.To) && anyHas(a.Ports, q.flow.Protocol, q.flow.Port) {
			return q.by(Decision{Allowed: true, Rule: 1, Line: a.Line}, "allow", a.Name, "has it"), true
		}
	}
	return Decision{}, false
}

func (q question) isLimited() (Decision, bool) {
	var limit *Egress
	for i, e := range q.rules.Egress {
		if q.from == nil || !e.From.selects(*q.from) {
			continue
		}
		if q.reaches(e) {
			return Decision{}, false
		}
		if limit == nil {
			limit = &q.rules.Egress[i]
		}
	}
	if limit == nil {
		return Decision{}, false
	}
	return q.by(Decision{Rule: 2, Line: limit.Line}, "egress", limit.Name, "limits the source, and does not have the destination"), true
}

// reaches tells whether a rule egress has the destination and the port.
func (q question) reaches(e Egress) bool {
	if e.DNS && anyHas(dnsPorts, q.flow.Protocol, q.flow.Port) {
		return true
	}
	return covers(e.To, q.to, q.flow.To) && anyHas(e.Ports, q.flow.Protocol, q.flow.Port)
}

func (q question) isPublished() (Decision, bool) {
	return Decision{Allowed: true, Rule: 3, Text: "the port is published"}, q.flow.Published
}

func (q question) isFromHost() (Decision, bool) {
	isOwn := q.flow.From.Host && q.to != nil && q.to.Link != ""
	if isOwn && q.to.NoHost {
		return Decision{Rule: 4, Text: fmt.Sprintf("network %q has fromHost false: its host reaches its attachments by rules only", q.to.Network)}, true
	}
	return Decision{Allowed: true, Rule: 4, Text: "a host reaches its own attachments"}, isOwn
}

func (q question) isApart() (Decision, bool) {
	if q.from == nil || q.to == nil || q.from.Network == q.to.Network {
		return Decision{}, false
	}
	for _, m := range []*Member{q.to, q.from} {
		if m.Level == Network || m.Level == Strict {
			return Decision{Rule: 5, Text: fmt.Sprintf("network %q has the isolation %q: no other network of allocnet reaches it, nor does it reach one", m.Network, m.Level)}, true
		}
	}
	return Decision{}, false
}

func (q question) isStrict() (Decision, bool) {
	if q.from == nil || q.to == nil || q.to.Level != Strict {
		return Decision{}, false
	}
	return Decision{Rule: 6, Text: fmt.Sprintf("network %q has the isolation %q: its attachments do not reach each other", q.to.Network, Strict)}, true
}

func (q question) isFromElsewhere() (Decision, bool) {
	if q.to == nil || q.to.Level != Strict || q.from != nil || q.flow.From.Host {
		return Decision{}, false
	}
	reaching := "only its host reaches its attachments"
	if q.to.Inside {
		reaching = "nothing else reaches its attachments"
	}
	return Decision{Rule: 7, Text: fmt.Sprintf("network %q has the isolation %q: %s", q.to.Network, Strict, reaching)}, true
}

// by adds the rule of the file to a decision.
func (q question) by(d Decision, kind, name, text string) Decision {
	d.By = fmt.Sprintf("%s %q", kind, name)
	d.Text = fmt.Sprintf("%s (%s:%d) %s", d.By, q.rules.File, d.Line, text)
	return d
}

// covers tells whether a selector selects an end.
func covers(s Selector, m *Member, e End) bool {
	return m != nil && s.selects(*m) || s.selectsAddress(e.Address) || s.Host && e.Host
}
