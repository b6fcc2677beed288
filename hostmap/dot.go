// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/internal/termtext"
)

// DOT draws a map in the language of Graphviz: a node for each network and each allocation, and
// an edge for each attachment.
func DOT(m *Map) string {
	var b strings.Builder
	c := m.count()
	fmt.Fprintf(&b, "graph %s {\n", label("host "+m.Host))
	b.WriteString("\trankdir=LR\n\tnode [shape=box, style=rounded, fontname=monospace]\n\tedge [fontname=monospace, fontsize=10]\n")
	fmt.Fprintf(&b, "\tlabel=%s\n", label("host "+m.Host, c.String(), c.driftText()))
	nodes := map[string]string{}
	for i, n := range m.Networks {
		nodes[n.Name] = fmt.Sprintf("network%d", i)
		fmt.Fprintf(&b, "\t%s [label=%s%s]\n", nodes[n.Name], label(n.lines()...), alarm(len(n.drift()) > 0))
	}
	for i, a := range m.Allocations {
		wrong, unknown := a.remarks()
		node := fmt.Sprintf("allocation%d", i)
		fmt.Fprintf(&b, "\t%s [label=%s%s]\n", node, label(append([]string{a.ID, a.owner()}, append(wrong, unknown...)...)...), alarm(len(wrong) > 0))
		for _, n := range a.Attachments {
			wrong, unknown := n.remarks()
			lines := append([]string{n.Interface}, n.values()...)
			lines = append(append(append(lines, string(n.Phase)), wrong...), unknown...)
			fmt.Fprintf(&b, "\t%s -- %s [label=%s%s]\n", nodes[n.Network], node, label(lines...), alarm(len(wrong) > 0))
		}
	}
	m.dotDenied(&b)
	b.WriteString("}\n")
	return b.String()
}

func (n Network) lines() []string {
	lines := []string{n.Name, n.describe()}
	for _, p := range n.Pools {
		lines = append(lines, p.describe())
	}
	return append(lines, n.drift()...)
}

func alarm(differs bool) string {
	if differs {
		return ", color=red"
	}
	return ""
}

// label is a string of lines; empty ones are left out.
func label(lines ...string) string {
	var kept []string
	for _, line := range lines {
		if line != "" {
			kept = append(kept, dotText.Replace(termtext.Printable(line)))
		}
	}
	return `"` + strings.Join(kept, `\n`) + `"`
}

// dotText escapes what ends a string or begins a sequence in a label: Graphviz knows those of
// backslashes, and the character references of HTML.
var dotText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;")
