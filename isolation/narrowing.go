// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
)

// Narrowing is what a job leaves of what reaches its attachments, or of what they reach: flows that one of its parts has. Nil: the job
// leaves all; without a part it leaves none.
type Narrowing []part

type part struct {
	// CIDRs have the other end: the source of ingress, the destination of egress. Empty: any.
	CIDRs []netip.Prefix
	// Ports are those of the destination. Empty: all protocols.
	Ports []Ports
}

// A job writes a text of at most mostBytes, with at most mostWords prefixes and ports: each costs the first packet of a flow a comparison.
const (
	mostBytes = 4000
	mostWords = 64
)

// noFlow is what a job writes to leave none.
const noFlow = "none"

// ParseIngress reads what a job leaves of what reaches its attachments, such as "5432/tcp, 10.0.0.0/8 9100/tcp".
func ParseIngress(text string) (Narrowing, error) { return parseNarrowing(text, nil) }

// ParseEgress reads what a job leaves of what its attachments reach, such as "10.0.0.0/8 5432/tcp, dns".
func ParseEgress(text string) (Narrowing, error) {
	return parseNarrowing(text, map[string][]Ports{"dns": dnsPorts})
}

// parseNarrowing reads parts that are separated by commas. names are those of ports.
func parseNarrowing(text string, names map[string][]Ports) (Narrowing, error) {
	if strings.TrimSpace(text) == noFlow {
		return Narrowing{}, nil
	}
	if len(text) > mostBytes {
		return nil, fmt.Errorf("%d bytes: want at most %d", len(text), mostBytes)
	}
	if n := len(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })); n > mostWords {
		return nil, fmt.Errorf("%d prefixes and ports: want at most %d", n, mostWords)
	}
	var all Narrowing
	for words := range strings.SplitSeq(text, ",") {
		var p part
		for word := range strings.FieldsSeq(words) {
			if err := p.read(word, names); err != nil {
				return nil, err
			}
		}
		if len(p.CIDRs)+len(p.Ports) == 0 {
			return nil, fmt.Errorf("%q: want parts with prefixes of addresses, ports or both, as in \"5432/tcp, 10.0.0.0/8 9100/tcp\", or %s", text, noFlow)
		}
		all = append(all, p)
	}
	return all, nil
}

// read adds a word of a part.
func (p *part) read(word string, names map[string][]Ports) error {
	if ports, ok := names[word]; ok {
		p.Ports = append(p.Ports, ports...)
		return nil
	}
	if ports, err := ParsePorts(word); err == nil {
		p.Ports = append(p.Ports, ports)
		return nil
	}
	prefix, err := netip.ParsePrefix(word)
	switch {
	case err != nil || prefix.Addr().Is4In6():
		also := ""
		if names != nil {
			also = " dns,"
		}
		return fmt.Errorf("%q: want a prefix, as in 10.0.0.0/8 or 192.0.2.1/32, ports, as in 5432/tcp, 8000-8010/udp or icmp,%s or %s by itself", word, also, noFlow)
	case prefix != prefix.Masked():
		return fmt.Errorf("%q: want %s, or %s for the address", word, prefix.Masked(), netip.PrefixFrom(prefix.Addr(), prefix.Addr().BitLen()))
	}
	p.CIDRs = append(p.CIDRs, prefix)
	return nil
}

// IsNarrowed tells whether a job leaves less of the traffic of an attachment.
func (m *Member) IsNarrowed() bool { return m.Ingress != nil || m.Egress != nil }

// leaves tells whether one of the parts has the other end of a flow, and its port.
func (n Narrowing) leaves(other netip.Addr, f Flow) bool {
	return n == nil || slices.ContainsFunc(n, func(p part) bool {
		return Selector{CIDRs: p.CIDRs}.selectsAddress(other) && anyHas(p.Ports, f.Protocol, f.Port)
	})
}

// String is what is left, in words.
func (n Narrowing) String() string {
	if len(n) == 0 {
		return "nothing"
	}
	var parts []string
	for _, p := range n {
		parts = append(parts, phrase(Selector{CIDRs: p.CIDRs}, p.Ports))
	}
	return strings.Join(parts, ", ")
}

// isNarrowed decides about what a job does not leave of the traffic of its own attachments. The host is not narrowed.
func (q question) isNarrowed() (Decision, bool) {
	if q.from != nil && !q.from.Egress.leaves(q.flow.To.Address, q.flow) {
		return Decision{Text: fmt.Sprintf("the job of the source narrows its egress to %s", q.from.Egress)}, true
	}
	if q.to != nil && !q.flow.From.Host && !q.to.Ingress.leaves(q.flow.From.Address, q.flow) {
		return Decision{Text: fmt.Sprintf("the job of the destination narrows its ingress to %s", q.to.Ingress)}, true
	}
	return Decision{}, false
}

// ofIngress and ofEgress are what a job leaves of traffic, as the first passage; nothing if that is all.
func ofIngress(m Member) []Passage {
	if m.Ingress == nil {
		return nil
	}
	left := m.Ingress.String()
	if !m.Inside {
		left = "this host, " + left
	}
	return []Passage{{Peer: "everything but " + left, By: "ingress of the job"}}
}

func ofEgress(m Member) []Passage {
	if m.Egress == nil {
		return nil
	}
	return []Passage{{Peer: "everything but " + m.Egress.String(), By: "egress of the job"}}
}
