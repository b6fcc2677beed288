// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/termtext"
)

// named is a map that has a name at each place for text.
func named(name string) *Map {
	m := small()
	m.Host, m.Problems = name, []string{name}
	m.Denied = []hook.DeniedFlow{{Protocol: name, Reason: name, From: hook.FlowEnd{Allocation: name, Interface: name}}}
	for i := range m.Networks {
		n := &m.Networks[i]
		n.Name, n.Plugins = name, []string{name}
		for k := range n.Devices {
			n.Devices[k].Plugin, n.Devices[k].Name, n.Devices[k].Drift = name, name, name
		}
		for k := range n.Pools {
			n.Pools[k].Name = name
		}
	}
	for i := range m.Allocations {
		a := &m.Allocations[i]
		a.ID, a.NotCompared, a.Drift = name, name, []string{name}
		a.Identity.Job, a.Identity.Group, a.Identity.Namespace, a.Identity.Region = name, name, name, name
		for k := range a.Attachments {
			n := &a.Attachments[k]
			n.Network, n.Interface, n.Task, n.Error, n.NotCompared, n.Drift = name, name, name, name, name, []string{name}
			for p := range n.Ports {
				n.Ports[p].HostIP, n.Ports[p].Protocol = name, name
			}
		}
	}
	return m
}

// hostile are names that do harm where they are not escaped.
func hostile(f *testing.F) {
	f.Helper()
	for _, seed := range []string{
		"web", "", "\n", "a\nb\rc", "\x1b[2J\x1b]0;title\x07", "\u202e\u2066\u200b", "\xff\xfe\x00", "日本語 e\u0301", strings.Repeat("long ", 50),
		`"]; evil [label="`, `\`, `\\"`, `\N\G`, "&lt;&quot;", "</text><script>alert(1)</script>", `" onload="alert(1)`, "]]>", "<!--", "&#x1b;", "</desc></svg>", "\ufffe\uffff",
	} {
		f.Add(seed)
	}
}

// FuzzText: a terminal acts on nothing of a name, and lines fit.
func FuzzText(f *testing.F) {
	hostile(f)
	f.Fuzz(func(t *testing.T, name string) {
		m := named(name)
		for line := range strings.Lines(Text(m, TextOptions{Columns: 80})) {
			line = strings.TrimSuffix(line, "\n")
			if strings.ContainsFunc(line, termtext.Unprintable) || termtext.Width(line) > 80 {
				t.Errorf("a line of %d columns: %q", termtext.Width(line), line)
			}
		}
		if coloured, plain := Text(m, TextOptions{Colours: true}), Text(m, TextOptions{}); !strings.Contains(name, "\x1b") && withoutColours(coloured) != plain {
			t.Errorf("%q has colours of its own", coloured)
		}
	})
}

// FuzzSVG: a name is text of the SVG, and no element, attribute or style.
func FuzzSVG(f *testing.F) {
	hostile(f)
	shape := func(all []element) []string {
		var names []string
		for _, e := range all {
			if e.name != "text" { // long names are broken, and empty ones are not drawn
				names = append(names, e.name)
			}
		}
		return names
	}
	f.Fuzz(func(t *testing.T, name string) {
		drawn := SVG(named(name))
		all := parseSVG(t, drawn)
		requireInert(t, all)
		if got, want := shape(all), shape(parseSVG(t, SVG(named("web")))); !slices.Equal(got, want) {
			t.Errorf("elements %q, want %q", got, want)
		}
		if strings.ContainsFunc(strings.ReplaceAll(drawn, "\n", ""), termtext.Unprintable) {
			t.Errorf("the SVG has what a terminal could act on: %q", drawn)
		}
		if want := "Networks of the host " + termtext.Printable(name); all[1].text != want {
			t.Errorf("the title is %q, want %q", all[1].text, want)
		}
	})
}

// dotLine is a line of DOT, whose strings end where they should.
var dotLine = regexp.MustCompile(`^(graph S \{|\trankdir=LR|\tnode \[shape=box, style=rounded, fontname=monospace\]|\tedge \[fontname=monospace, fontsize=10\]|\tlabel=S|\t(network|allocation)\d+ \[label=S(, color=red)?\]|\tnetwork\d+ -- allocation\d+ \[label=S(, color=red)?\]|\tother\d+ \[label=S, style=dashed\]|\t(allocation|other)\d+ -- (allocation|other)\d+ \[label=S, dir=forward, style=dashed, color=red\]|\})$`)

// dotString is a string of DOT: a backslash stands before a quote, a backslash or the n of a
// new line.
var dotString = regexp.MustCompile(`"([^"\\]|\\["\\n])*"`)

// FuzzDOT: a name is text in a string, and no node, edge, attribute or sequence of Graphviz.
func FuzzDOT(f *testing.F) {
	hostile(f)
	f.Fuzz(func(t *testing.T, name string) {
		for line := range strings.Lines(DOT(named(name))) {
			line = strings.TrimSuffix(line, "\n")
			if !dotLine.MatchString(dotString.ReplaceAllString(line, "S")) || strings.ContainsFunc(strings.TrimPrefix(line, "\t"), termtext.Unprintable) {
				t.Errorf("a line is %q", line)
			}
		}
	})
}
