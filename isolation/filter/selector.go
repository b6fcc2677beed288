// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/isolation"
)

// selects tells whether a selector with patterns selects an attachment.
func selects(s *isolation.Selector, m *isolation.Member) bool {
	return matches(s.Job, m.Job) && matches(s.Namespace, m.Namespace) && matches(s.Group, m.Group) && matches(s.Network, m.Network)
}

// matches tells whether a pattern is of the text. What is unknown is of no pattern.
func matches(pattern, text string) bool {
	if pattern == "" || text == "" {
		return pattern == ""
	}
	first, rest, isOpen := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, first)
	if !isOpen {
		return ok && text == ""
	}
	for ok && isOpen {
		var part string
		if part, rest, isOpen = strings.Cut(rest, "*"); !isOpen {
			return strings.HasSuffix(text, part)
		}
		_, text, ok = strings.Cut(text, part)
	}
	return ok
}

// selectsAll tells whether a selector selects everything, attachment or not.
func selectsAll(s *isolation.Selector) bool {
	return s.Job == "" && s.Namespace == "" && s.Group == "" && s.Network == "" && len(s.CIDRs) == 0 && !s.Host
}

// hasPatterns tells whether a selector selects attachments, and nothing else.
func hasPatterns(s *isolation.Selector) bool { return len(s.CIDRs) == 0 && !s.Host && !selectsAll(s) }

// appendText appends a text that differs for each other list of texts.
func appendText(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(strconv.AppendInt(b, int64(len(text)), 10), ':')
		b = append(b, text...)
	}
	return b
}

func appendSelector(b []byte, s *isolation.Selector) []byte {
	b = appendText(b, s.Namespace, s.Job, s.Group, s.Network)
	for _, cidr := range s.CIDRs {
		b = cidr.AppendTo(append(b, ' '))
	}
	if s.Host {
		b = append(b, " host"...)
	}
	return append(b, '\n')
}

func appendPorts(b []byte, ports []isolation.Ports) []byte {
	for _, p := range ports {
		b = strconv.AppendUint(append(appendText(b, p.Protocol), ' '), uint64(p.First)<<16|uint64(p.Last), 10)
	}
	return append(b, '\n')
}

// Sum is a short name for a text, as that of encoded rules.
func Sum(text []byte) string { return digest(text)[:12] }

// digest is a name for a text of the author of a job, who may want it to be the name of another text.
func digest(text []byte) string {
	all := sha256.Sum256(text)
	return hex.EncodeToString(all[:16])
}

// selectorPrefix begins the names of the sets of selectors.
const selectorPrefix = "is-"

// setOf is the name of the set of the attachments that a selector with patterns selects, without its family.
func setOf(s *isolation.Selector) string { return selectorPrefix + Sum(appendSelector(nil, s)) }
