// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// Names of the maps from sources, and from destinations, whose jobs narrow their traffic to the chains of what these leave.
const (
	narrowedFrom = "narrowed-from"
	narrowedTo   = "narrowed-to"
)

// narrowClass is the name of the chain of what a job leaves of the traffic from, or to, its attachments. Its author writes that, and may not
// have it be the chain of another job.
func narrowClass(of string, n isolation.Narrowing) string {
	var text []byte
	for _, p := range n {
		text = appendPorts(appendSelector(text, &isolation.Selector{CIDRs: p.CIDRs}), p.Ports)
	}
	return of + "-" + digest(text)
}

// narrow adds what leads to that chain; nothing if the job leaves all.
func (e *elements) narrow(of string, n isolation.Narrowing, suffix string, key [][]byte) {
	if n != nil {
		e.add(netfilter.INet, of+suffix, netfilter.Element{Verdict: expr.VerdictJump, Chain: narrowClass(of, n)}, key...)
	}
}

// narrowChain makes that chain; other is the end that its prefixes are of. A packet that is left goes on.
func (t *table) narrowChain(of string, n isolation.Narrowing, other side) {
	if n == nil || t.chains[narrowClass(of, n)] != nil {
		return
	}
	var lines []netfilter.Rule
	for _, p := range n {
		lines = append(lines, t.lines("left by the job", &isolation.Selector{CIDRs: p.CIDRs}, other, p.Ports, goBack)...)
	}
	t.chain(narrowClass(of, n), shortened("0: left by the job is "+n.String()), append(lines, rule("0: the job does not leave it", deniedFor(isolation.ByNarrowing)))...)
}
