// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/allocnet/allocnet/internal/hclfile"
)

// values are those of one file.
type values struct {
	hclfile.Values

	// names are those of rules, with where they are.
	names map[string]hcl.Range
}

// mostName is the length of a name in bytes: comments of nftables have it, with a line number.
const mostName = 64

// name checks that of a rule.
func (v *values) name(b *hcl.Block) {
	name, where := b.Labels[0], b.LabelRanges[0]
	if name != strings.TrimSpace(name) || name == "" || len(name) > mostName || !utf8.ValidString(name) || strings.ContainsFunc(name, isUnprintable) {
		v.Fault(where, strconv.Quote(name), fmt.Sprintf("want a name of at most %d bytes without quotes, backslashes and control characters, as in \"web reaches db\"", mostName))
	}
	if earlier, found := v.names[name]; found {
		v.Fault(where, strconv.Quote(name), fmt.Sprintf("want another name: the rule at %s has it", earlier))
		return
	}
	v.names[name] = where
}

// isUnprintable tells whether a character is not one of names: a listing of nftables could not be loaded again.
func isUnprintable(r rune) bool { return r == '"' || r == '\\' || !unicode.IsPrint(r) }

// selectorBlock is a selector in HCL.
type selectorBlock struct {
	Namespace hcl.Expression `hcl:"namespace,optional"`
	Job       hcl.Expression `hcl:"job,optional"`
	Group     hcl.Expression `hcl:"group,optional"`
	Network   hcl.Expression `hcl:"network,optional"`
	CIDRs     hcl.Expression `hcl:"cidrs,optional"`
	Host      hcl.Expression `hcl:"host,optional"`
	Where     hcl.Range      `hcl:",def_range"`
}

// selector reads a block; the zero value without one.
func (v *values) selector(b *selectorBlock) Selector {
	if b == nil {
		return Selector{}
	}
	s := Selector{v.pattern(b.Namespace), v.pattern(b.Job), v.pattern(b.Group), v.pattern(b.Network), nil, v.host(b)}
	cidrs, given := hclfile.Read[[]string](&v.Values, b.CIDRs)
	if given && len(cidrs) == 0 {
		v.Fault(b.CIDRs.Range(), "cidrs", `want one or more prefixes, as in ["10.0.0.0/8"]`)
	}
	for _, text := range cidrs {
		s.CIDRs = append(s.CIDRs, v.prefix(b.CIDRs, text))
	}
	switch {
	case s.Host && (given || s.hasPatterns()):
		v.Fault(b.Where, "host", "want either host, or namespace, job, group, network or cidrs, which are no host")
	case s.Host:
		s.Network = noNetwork // to a program that does not know the key, which reads it from what is in force, it selects nothing
	case given && s.hasPatterns():
		v.Fault(b.Where, "cidrs", "want either cidrs, which are addresses of anything, or namespace, job, group and network, which are attachments")
	case !given && !s.hasPatterns():
		v.Fault(b.Where, "selector", `want namespace, job, group, network or cidrs; all attachments are network = "*", and everything is cidrs = ["0.0.0.0/0", "::/0"]`)
	}
	return s
}

// host reads whether a block selects the host.
func (v *values) host(b *selectorBlock) bool {
	is, given := hclfile.Read[bool](&v.Values, b.Host)
	if given && !is {
		v.Fault(b.Host.Range(), "host", "want true, or omit the key")
	}
	return is
}

func (v *values) pattern(e hcl.Expression) string {
	text, given := hclfile.Read[string](&v.Values, e)
	if given && (text == "" || text != strings.TrimSpace(text) || strings.HasPrefix(text, "!") || text == noNetwork || strings.ContainsFunc(text, unicode.IsControl)) {
		v.Fault(e.Range(), strconv.Quote(text), "want a name or a pattern, as in web or team-*")
	}
	return text
}

func (v *values) prefix(e hcl.Expression, text string) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil || p.Addr().Is4In6():
		v.Fault(e.Range(), strconv.Quote(text), `want a prefix, as in "10.0.0.0/8", "192.0.2.1/32" or "fd00::/8"`)
	case p != p.Masked():
		v.Fault(e.Range(), strconv.Quote(text), fmt.Sprintf("want %q, or %q for the address", p.Masked(), netip.PrefixFrom(p.Addr(), p.Addr().BitLen())))
	}
	return p
}

func (v *values) ports(e hcl.Expression) []Ports {
	texts, given := hclfile.Read[[]string](&v.Values, e)
	if given && len(texts) == 0 {
		v.Fault(e.Range(), "ports", `want one or more, as in ["5432/tcp"], or omit the key for all`)
	}
	var all []Ports
	for _, text := range texts {
		p, err := ParsePorts(text)
		if err != nil {
			v.Fault(e.Range(), "ports", strings.TrimPrefix(err.Error(), "ports "))
		}
		all = append(all, p)
	}
	return all
}
