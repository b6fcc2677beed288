// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"strings"
)

// picture is an SVG with a panel for attaching and one for detaching.
type picture struct{ strings.Builder }

// Size of the panels, in pixels, and of what is around them.
const (
	panelWidth, panelHeight = 300, 180
	marginLeft, marginTop   = 60, 40
	gap                     = 80
)

var colours = []string{"#1f77b4", "#2ca02c", "#ff7f0e", "#d62728", "#9467bd", "#8c564b", "#7f7f7f", "#17becf"}

// draw returns a picture; panel draws each of the two into it, from its left edge.
func draw(height int, panel func(p *picture, verb string, left int)) string {
	p := &picture{}
	width := 2*panelWidth + 2*marginLeft + gap
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`, width, height)
	p.add(`<rect width="%d" height="%d" fill="white"/>`, width, height)
	panel(p, "add", marginLeft)
	panel(p, "del", marginLeft+panelWidth+gap)
	p.add("</svg>")
	return p.String()
}

func (p *picture) add(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) } // never fails

func (p *picture) title(left int, verb, what string) {
	p.add(`<text x="%d" y="20" font-size="13">%s %s</text>`, left, map[string]string{"add": "attach", "del": "detach"}[verb], what)
}

// drawBars draws what attaching 1, 3 and 5 networks takes each program, with nftables.
func (r results) drawBars() string {
	programs := append([]struct{ name, text string }{{"by-agent", "allocnet, with its agent"}, {"allocnet", "allocnet"}}, others...)
	const bar, between = 11, 26
	return draw(marginTop+len(programs)*(len(counts)*bar+between), func(p *picture, verb string, left int) {
		p.title(left, verb, "1, 3 and 5 networks, nftables, ms")
		value := func(program string, k int) (float64, bool) {
			return r.get(fmt.Sprintf("Peers/nftables/k=%d", k), program+"-"+verb+"-ms")
		}
		most := 1.0
		for _, program := range programs {
			for _, k := range counts {
				ms, _ := value(program.name, k)
				most = max(most, ms)
			}
		}
		y := marginTop
		for i, program := range programs {
			p.add(`<text x="%d" y="%d">%s</text>`, left, y+8, program.text)
			y += 12
			for j, k := range counts {
				if ms, known := value(program.name, k); known {
					width := (panelWidth - 40) * ms / most
					p.add(`<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s" opacity="%.1f"/>`, left, y, width, bar-1, colours[i], 0.4+0.3*float64(j))
					p.add(`<text x="%.1f" y="%d" font-size="9">%.0f</text>`, float64(left)+width+4, y+8, ms)
				}
				y += bar
			}
			y += between - 12
		}
	})
}

// line is what is drawn as one, by its names in the rows.
type line struct{ subject, way, text string }

// drawLines draws what one more allocation takes beside others.
func (r results) drawLines() string {
	var lines []line
	for _, way := range growthWays {
		lines = append(lines, line{"allocnet", way.name, "allocnet, " + way.text})
	}
	for _, way := range growthWays {
		lines = append(lines, line{"plugins", way.name, "plugins, " + way.text})
	}
	return draw(panelHeight+3*marginTop, func(p *picture, verb string, left int) {
		p.title(left, verb, "three networks, ms")
		p.lines(left, lines, func(l line, others int) (float64, bool) {
			return r.get(fmt.Sprintf("Growth/%s/others=%d", l.way, others), l.subject+"-"+verb+"-ms")
		})
	})
}

// beside are how many others there are, and mostBeside the most of them.
var beside = []int{0, 100, 300, mostBeside}

const mostBeside = 1000

func (p *picture) lines(left int, lines []line, value func(line, int) (float64, bool)) {
	most := 1.0
	for _, l := range lines {
		for _, n := range beside {
			ms, _ := value(l, n)
			most = max(most, ms)
		}
	}
	x := func(others int) float64 { return float64(left) + float64(panelWidth*others)/mostBeside }
	y := func(ms float64) float64 { return marginTop + panelHeight*(1-ms/most) }
	for i := range 5 {
		ms, others := most*float64(i)/4, mostBeside*i/4
		p.add(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, left, left+panelWidth, y(ms), y(ms))
		p.add(`<text x="%d" y="%.1f" text-anchor="end">%.0f</text>`, left-6, y(ms)+4, ms)
		p.add(`<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, x(others), marginTop+panelHeight+16, others)
	}
	p.add(`<text x="%d" y="%d" text-anchor="middle">other allocations on the host</text>`, left+panelWidth/2, marginTop+panelHeight+34)
	for i, l := range lines {
		var points []string
		for _, n := range beside {
			if ms, known := value(l, n); known {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(n), y(ms)))
			}
		}
		p.add(`<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, colours[i], strings.Join(points, " "))
		p.add(`<text x="%d" y="%d" fill="%s">%s</text>`, left+8, marginTop+14+14*i, colours[i], l.text)
	}
}
