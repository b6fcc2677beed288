// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/internal/termtext"
	"github.com/allocnet/allocnet/state"
)

// Measures of an SVG, in pixels.
const (
	// charWidth is that of a column. Browsers are told the length of each text, so that no
	// font makes one longer.
	charWidth      = 7.2
	titleCharWidth = 9
	lineHeight     = 18
	margin         = 20
	railGap        = 14
	cardInset      = 12
	barWidth       = 120
	barHeight      = 8
)

// Columns of an SVG.
const (
	// valueColumns are the most for addresses and ports in a line, unless one is longer.
	valueColumns = 48
	// leastColumns are those of the text of a small map.
	leastColumns = 88
	// headColumns are those for the description of a network, at least.
	headColumns = 64
	// mostRails is how many networks have lines; more would be a tangle, so that names alone
	// say to which network an interface belongs.
	mostRails = 24
)

// SVG draws a map as an image without scripts and external resources. Its colours are those for
// a dark or a light background, as the reader prefers, and it has a description in words.
func SVG(m *Map) string {
	d := newDrawing(m)
	d.y = margin + lineHeight
	d.header()
	for _, n := range d.networks {
		d.network(n)
	}
	for _, a := range m.Allocations {
		d.allocation(a)
	}
	d.problems()
	return d.document()
}

type drawing struct {
	*Map
	rails
	// networks are those with a rail, then the others.
	networks []Network
	// iface, nameWidth and values are the widths of columns, in characters.
	iface, nameWidth, values int
	// left is where the text begins, width that of the image.
	left, width float64
	// y is the base of the next line.
	y float64
	// heads are where the rails begin, and ends where they end.
	heads, ends []float64
	// lines are drawn below the text, and b has the rest, or the card that is being drawn.
	lines strings.Builder
	b     *strings.Builder
}

func newDrawing(m *Map) *drawing {
	d := &drawing{Map: m, rails: newRails(m), b: &strings.Builder{}}
	if len(d.names) > mostRails {
		d.rails = rails{}
	}
	d.heads, d.ends = make([]float64, len(d.names)), make([]float64, len(d.names))
	d.networks = d.sorted(m.Networks)
	w := d.widest()
	d.nameWidth, d.iface = max(4, min(longestName, w.network)), max(4, min(longestInterface, w.iface))
	d.values = max(16, min(longestValue, w.value), min(valueColumns, w.values))
	d.left = margin
	if n := len(d.names); n > 0 {
		d.left += float64(n)*railGap + railGap/2
	}
	columns := max(leastColumns, d.iface+d.nameWidth+d.values+len(state.Attached)+8, d.nameWidth+headColumns)
	d.width = d.left + 2*cardInset + margin + float64(columns)*charWidth
	return d
}

// longestValue is the longest that is not broken: an IPv6 address of the host with ports.
const longestValue = 64

func columnsOf(s string) int { return termtext.Width(termtext.Printable(s)) }

func (d *drawing) header() {
	c := d.count()
	d.title()
	d.y += lineHeight
	d.text(margin, "dim", c.String())
	if drift := c.driftText(); drift != "" {
		d.text(margin+float64(len(c.String())+2)*charWidth, "bad", drift)
	}
	d.y += 2 * lineHeight
}

func (d *drawing) title() {
	s := termtext.Cut(termtext.Printable("host "+d.Host), int((d.width-2*margin)/titleCharWidth), "…")
	d.sized(margin, "title", s, titleCharWidth)
}

// fit is how many characters have room from a position on.
func (d *drawing) fit(x float64) int { return max(2, int((d.width-margin-cardInset-x)/charWidth)) }

// cut shortens a text to what has room from a position on.
func (d *drawing) cut(s string, x float64) string {
	return termtext.Cut(termtext.Printable(s), d.fit(x), "…")
}

func (d *drawing) railX(i int) float64 { return margin + railGap/2 + float64(i)*railGap }

// networkColours is how many colours networks have, which repeat.
const networkColours = 6

func (d *drawing) class(network string) string {
	if i := d.index(network); i >= 0 {
		return fmt.Sprintf("t%d", i%networkColours)
	}
	return "dim"
}

func (d *drawing) network(n Network) {
	if i := d.index(n.Name); i >= 0 {
		d.heads[i] = d.y - 4
	}
	d.name(d.left, n.Name)
	x := d.left + float64(d.nameWidth+len(gap))*charWidth
	d.wrapped(x, "", n.describe())
	for _, pool := range n.Pools {
		d.pool(x, pool)
	}
	for _, drift := range n.drift() {
		d.wrapped(x, "bad", drift)
	}
	d.y += lineHeight / 3
}

func (d *drawing) name(x float64, network string) {
	shown := termtext.Cut(termtext.Printable(network), d.nameWidth, "…")
	d.text(x, "b "+d.class(network), shown)
}

func (d *drawing) pool(x float64, p Pool) {
	fmt.Fprintf(d.b, `<rect class="bar" x="%.1f" y="%.1f" width="%d" height="%d" rx="4"/>`, x, d.y-barHeight, barWidth, barHeight)
	if p.Used > 0 {
		fmt.Fprintf(d.b, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="4"/>`, classes[barStyle(p)], x, d.y-barHeight, max(barHeight, p.fill()*barWidth), barHeight)
	}
	d.wrapped(x+barWidth+charWidth, "dim", p.describe())
}

// allocation draws a card with a line for each attachment.
func (d *drawing) allocation(a Allocation) {
	all, top := d.b, d.y-4
	d.b = &strings.Builder{}
	d.y += lineHeight
	x := d.left + cardInset
	id := d.cut(a.ID, x)
	d.text(x, "b", id)
	if at := x + float64(columnsOf(id)+len(gap))*charWidth; d.fit(at) > 8 {
		d.text(at, "dim", d.cut(a.owner(), at))
	}
	d.y += lineHeight
	wrong, unknown := a.remarks()
	d.remarks(x, wrong, unknown)
	for _, n := range a.Attachments {
		d.attachment(x, n)
	}
	card := d.b.String()
	d.b = all
	fmt.Fprintf(d.b, `<g><rect class="card" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="6"/>%s</g>`+"\n", d.left, top, d.width-margin-d.left, d.y-top-lineHeight+10, card)
	d.y += lineHeight * 2 / 3
}

// attachment draws an interface and the line from the rail of its network.
func (d *drawing) attachment(x float64, n Attachment) {
	if i := d.index(n.Network); i >= 0 {
		d.ends[i] = d.y - 4
		fmt.Fprintf(&d.lines, `<path class="l%d" d="M%.1f %.1fH%.1f"/><circle class="t%d" cx="%.1f" cy="%.1f" r="4"/>`+"\n",
			i%networkColours, d.railX(i), d.y-4, d.left, i%networkColours, d.railX(i), d.y-4)
	}
	d.text(x, "b", termtext.Cut(termtext.Printable(n.Interface), d.iface, "…"))
	x += float64(d.iface+len(gap)) * charWidth
	d.name(x, n.Network)
	phase := d.width - margin - cardInset - float64(len(n.Phase))*charWidth
	d.text(phase, classes[phaseStyle(n.Phase)], string(n.Phase))
	x += float64(d.nameWidth+len(gap)) * charWidth
	y := d.y
	d.lined(x, "", termtext.Fill(printables(n.values()), gap, d.values))
	d.y = max(d.y, y+lineHeight)
	wrong, unknown := n.remarks()
	d.remarks(x, wrong, unknown)
}

func (d *drawing) remarks(x float64, wrong, unknown []string) {
	for _, text := range wrong {
		d.wrapped(x, "bad", text)
	}
	for _, text := range unknown {
		d.wrapped(x, "warn", text)
	}
}

func (d *drawing) problems() {
	d.y += lineHeight / 2
	d.remarks(margin, append(d.denied(), d.Problems...), nil)
}

// wrapped draws a text in as many lines as it needs.
func (d *drawing) wrapped(x float64, class, s string) {
	d.lined(x, class, termtext.Fill(wordsOf(s), " ", d.fit(x)))
}

func (d *drawing) lined(x float64, class string, lines []string) {
	for _, line := range lines {
		d.text(x, class, line)
		d.y += lineHeight
	}
}

func (d *drawing) text(x float64, class, s string) { d.sized(x, class, s, charWidth) }

// sized is text with characters of a width, whatever the font.
func (d *drawing) sized(x float64, class, s string, width float64) {
	if s = termtext.Printable(s); s == "" {
		return
	}
	if class != "" {
		class = fmt.Sprintf(` class="%s"`, class)
	}
	fmt.Fprintf(d.b, `<text%s x="%.1f" y="%.1f" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`,
		class, x, d.y, float64(termtext.Width(s))*width, escape(s))
}

var classes = map[style]string{green: "ok", yellow: "warn", red: "bad"}

// escape makes a text of XML, in one line.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(termtext.Printable(s))) // a Builder does not fail
	return b.String()
}

func (d *drawing) document() string {
	height := d.y - lineHeight + margin
	c := d.count()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" xml:space="preserve" aria-labelledby="map-title map-description">`+"\n", d.width, height, d.width, height)
	fmt.Fprintf(&b, `<title id="map-title">%s</title>`+"\n", escape("Networks of the host "+d.Host))
	fmt.Fprintf(&b, `<desc id="map-description">%s</desc>`+"\n", escape(c.String()+". "+d.inWords()))
	fmt.Fprintf(&b, "<style>%s</style>\n", styleSheet)
	fmt.Fprintf(&b, `<rect class="page" width="%.0f" height="%.0f"/>`+"\n", d.width, height)
	for i := range d.names {
		x := d.railX(i)
		fmt.Fprintf(&b, `<path class="l%d" d="M%.1f %.1fH%.1fQ%.1f %.1f %.1f %.1fV%.1f"/>`+"\n", i%networkColours, d.left-4, d.heads[i], x+6, x, d.heads[i], x, d.heads[i]+6, d.ends[i])
	}
	b.WriteString(d.lines.String())
	b.WriteString(d.b.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// inWords describes the map for those who do not see it.
func (m *Map) inWords() string {
	var sentences []string
	for _, n := range m.Networks {
		words := []string{n.describe()}
		for _, p := range n.Pools {
			words = append(words, p.describe())
		}
		sentences = append(sentences, fmt.Sprintf("Network %s: %s.", n.Name, strings.Join(append(words, n.drift()...), "; ")))
	}
	for _, a := range m.Allocations {
		wrong, unknown := a.remarks()
		words := append(append([]string{}, wrong...), unknown...)
		for _, n := range a.Attachments {
			wrong, unknown := n.remarks()
			all := append(append([]string{n.Interface + " to network " + n.Network, string(n.Phase)}, n.values()...), append(wrong, unknown...)...)
			words = append(words, strings.Join(all, ", "))
		}
		sentences = append(sentences, fmt.Sprintf("Allocation %s: %s.", strings.Trim(a.ID+", "+a.owner(), ", "), strings.Join(words, "; ")))
	}
	return strings.Join(sentences, " ")
}

// styleSheet is that of an SVG. Some programs that show SVG have no variables, so the colours for
// a dark background repeat the selectors: t are texts and joints of a network, l its lines.
const styleSheet = `
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#1f2328;white-space:pre}
path{fill:none;stroke-width:2}
.page{fill:#fff}.card{fill:#f6f8fa;stroke:#d0d7de}.bar{fill:#d0d7de}
text.title{font-size:15px;font-weight:bold}text.b{font-weight:bold}
.dim{fill:#57606a}.ok{fill:#116329}.warn{fill:#7d4e00}.bad{fill:#b31d28}
.t0{fill:#0550ae}.t1{fill:#8250df}.t2{fill:#0e6d6d}.t3{fill:#953800}.t4{fill:#a5307c}.t5{fill:#44546a}
.l0{stroke:#0550ae}.l1{stroke:#8250df}.l2{stroke:#0e6d6d}.l3{stroke:#953800}.l4{stroke:#a5307c}.l5{stroke:#44546a}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}
.page{fill:#0d1117}.card{fill:#161b22;stroke:#30363d}.bar{fill:#30363d}
.dim{fill:#9ba6b2}.ok{fill:#56d364}.warn{fill:#e3b341}.bad{fill:#ff8077}
.t0{fill:#6cb6ff}.t1{fill:#d2a8ff}.t2{fill:#4fd1c5}.t3{fill:#f0a35e}.t4{fill:#ff9bce}.t5{fill:#b6c2cf}
.l0{stroke:#6cb6ff}.l1{stroke:#d2a8ff}.l2{stroke:#4fd1c5}.l3{stroke:#f0a35e}.l4{stroke:#ff9bce}.l5{stroke:#b6c2cf}
}
`
