// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/texts"
)

// ofMap returns the flows with an end in the map.
func (m *Map) ofMap(flows []hook.DeniedFlow) []hook.DeniedFlow {
	return slices.DeleteFunc(slices.Clone(flows), func(f hook.DeniedFlow) bool {
		return m.find(f.From) < 0 && m.find(f.To) < 0
	})
}

// find returns which allocation an end is an attachment of; -1: of none that is in the map.
func (m *Map) find(e hook.FlowEnd) int {
	return slices.IndexFunc(m.Allocations, func(a Allocation) bool {
		return a.ID == e.Allocation && slices.ContainsFunc(a.Attachments, func(n Attachment) bool { return n.Interface == e.Interface })
	})
}

func (m *Map) denied() (lines []string) {
	for _, f := range m.Denied {
		lines = append(lines, fmt.Sprintf("denied: %s to %s, %s", f.From, f.To, passageOf(f)))
	}
	return lines
}

// passageOf is what of a flow was denied, and why.
func passageOf(f hook.DeniedFlow) string {
	return strings.TrimPrefix(fmt.Sprintf("%s, %s (%s)", f.Service(), texts.Counted(f.Count, "packet"), f.Reason), ", ")
}

// dotDenied draws an edge for each denied flow. What is no allocation of the map has a node for its address.
func (m *Map) dotDenied(b *strings.Builder) {
	others := map[string]string{}
	node := func(e hook.FlowEnd) string {
		if at := m.find(e); at >= 0 {
			return fmt.Sprintf("allocation%d", at)
		}
		name := e.String()
		if others[name] == "" {
			others[name] = fmt.Sprintf("other%d", len(others))
			fmt.Fprintf(b, "\t%s [label=%s, style=dashed]\n", others[name], label(name))
		}
		return others[name]
	}
	for _, f := range m.Denied {
		from, to := node(f.From), node(f.To)
		fmt.Fprintf(b, "\t%s -- %s [label=%s, dir=forward, style=dashed, color=red]\n", from, to, label("denied", passageOf(f)))
	}
}
