// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"strings"
)

// plot is a measured point: the milliseconds of one more allocation beside others.
type plot struct {
	backend, subject string
	others           int
	add, del         float64
}

// Size of the drawing and of its panels, in pixels.
const (
	panelWidth, panelHeight = 300, 180
	marginLeft, marginTop   = 60, 40
	gap                     = 80
)

// draw returns an SVG with a panel for ADD and one for DEL, and in each a line for each
// subject and backend.
func draw(plots []plot) string {
	var svg strings.Builder
	width, height := 2*panelWidth+2*marginLeft+gap, panelHeight+3*marginTop
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height)
	fmt.Fprintf(&svg, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	panel(&svg, "ADD of three networks", marginLeft, plots, func(p plot) float64 { return p.add })
	panel(&svg, "DEL of three networks", marginLeft+panelWidth+gap, plots, func(p plot) float64 { return p.del })
	svg.WriteString("</svg>\n")
	return svg.String()
}

// panel draws the axes and the lines of one figure.
func panel(svg *strings.Builder, title string, left int, plots []plot, figure func(plot) float64) {
	mostOthers, most := 1, 1.0
	for _, p := range plots {
		mostOthers, most = max(mostOthers, p.others), max(most, figure(p))
	}
	x := func(others int) float64 { return float64(left) + float64(panelWidth*others)/float64(mostOthers) }
	y := func(value float64) float64 { return marginTop + panelHeight*(1-value/most) }
	fmt.Fprintf(svg, `<text x="%d" y="20" font-size="13">%s</text>`+"\n", left, title)
	for i := range 5 {
		value := most * float64(i) / 4
		fmt.Fprintf(svg, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", left, left+panelWidth, y(value), y(value))
		fmt.Fprintf(svg, `<text x="%d" y="%.1f" text-anchor="end">%.0f ms</text>`+"\n", left-6, y(value)+4, value)
		others := mostOthers * i / 4
		fmt.Fprintf(svg, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(others), marginTop+panelHeight+16, others)
	}
	fmt.Fprintf(svg, `<text x="%d" y="%d" text-anchor="middle">other allocations on the host</text>`+"\n", left+panelWidth/2, marginTop+panelHeight+34)
	for i, l := range linesOf(plots) {
		var points []string
		for _, p := range l {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(p.others), y(figure(p))))
		}
		colour := []string{"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b"}[i%6]
		last := l[len(l)-1]
		fmt.Fprintf(svg, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", colour, strings.Join(points, " "))
		fmt.Fprintf(svg, `<text x="%d" y="%d" fill="%s">%s, %s</text>`+"\n", left+8, marginTop+14+14*i, colour, last.subject, last.backend)
	}
}

// linesOf groups points by subject and backend, in the order in which these come first.
func linesOf(plots []plot) [][]plot {
	var lines [][]plot
	at := map[[2]string]int{}
	for _, p := range plots {
		key := [2]string{p.subject, p.backend}
		i, ok := at[key]
		if !ok {
			i = len(lines)
			at[key] = i
			lines = append(lines, nil)
		}
		lines[i] = append(lines[i], p)
	}
	return lines
}
