// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/texts"
)

// Selector selects attachments, or addresses. The zero value selects everything.
type Selector struct {
	// Namespace, Job, Group and Network are patterns, in which "*" is any text. Empty: any. An attachment whose namespace, job
	// or group is unknown is selected by no pattern of it.
	Namespace, Job, Group, Network string
	// CIDRs select addresses, whether or not they are of attachments. With them there are no patterns.
	CIDRs []netip.Prefix
	// Host selects this host, whatever its address is, and nothing else.
	Host bool
}

// noNetwork is a pattern of Selector.Network that no network has: its name has no slash.
const noNetwork = "/"

// selects tells whether an attachment is selected for what it is. What its address is selected for, selectsAddress tells.
func (s Selector) selects(m Member) bool {
	if len(s.CIDRs) > 0 || s.Host {
		return false
	}
	for _, p := range s.patterns() {
		if p.pattern != "" && (p.of(m) == "" || !fits(p.pattern, p.of(m))) {
			return false
		}
	}
	return true
}

// selectsAddress tells whether an address is selected, whatever has it.
func (s Selector) selectsAddress(a netip.Addr) bool {
	if len(s.CIDRs) > 0 {
		return slices.ContainsFunc(s.CIDRs, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
	}
	return s.selectsAll()
}

// selectsAll tells whether it is the zero value.
func (s Selector) selectsAll() bool { return len(s.CIDRs) == 0 && !s.hasPatterns() && !s.Host }

// pattern is one of a selector, with the key that it has in a file.
type pattern struct {
	key, pattern string
	of           func(Member) string
}

func (s Selector) patterns() []pattern {
	return []pattern{
		{"namespace", s.Namespace, func(m Member) string { return m.Namespace }},
		{"job", s.Job, func(m Member) string { return m.Job }},
		{"group", s.Group, func(m Member) string { return m.Group }},
		{"network", s.Network, func(m Member) string { return m.Network }},
	}
}

func (s Selector) hasPatterns() bool {
	return slices.ContainsFunc(s.patterns(), func(p pattern) bool { return p.pattern != "" })
}

// String is what a file has, in words.
func (s Selector) String() string {
	var parts []string
	for _, p := range s.patterns() {
		if p.pattern != "" {
			parts = append(parts, fmt.Sprintf("%s %q", p.key, p.pattern))
		}
	}
	parts = append(parts, texts.Of(s.CIDRs)...)
	switch {
	case s.Host:
		return "this host"
	case len(parts) == 0:
		return "everything"
	case s.Network == noNetwork:
		return "nothing"
	}
	return strings.Join(parts, " ")
}
