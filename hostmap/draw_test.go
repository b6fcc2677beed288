// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/termtext"
)

// golden compares a drawing with the file in testdata. ALLOCNET_WRITE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("ALLOCNET_WRITE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// hosts are maps of different sizes.
func hosts() map[string]*Map {
	return map[string]*Map{"empty": {Host: "node-7"}, "one": many(1, 1), "small": small(), "long": long(), "many": many(40, 5), "wide": many(3, 20)}
}

// TestDrawings: each form has everything.
func TestDrawings(t *testing.T) {
	m := small()
	short := map[string]string{m.Allocations[0].ID: "5c2e9a0e"}
	golden(t, "small.txt", Text(m, TextOptions{Columns: 80, IDs: short}))
	golden(t, "small-pipe.txt", Text(m, TextOptions{}))
	golden(t, "small-ascii.txt", Text(m, TextOptions{Columns: 80, ASCII: true, IDs: short}))
	golden(t, "small.svg", SVG(m))
	golden(t, "small.dot", DOT(m))
	golden(t, "long.txt", Text(long(), TextOptions{Columns: 80}))
	golden(t, "many.txt", Text(many(12, 5), TextOptions{Columns: 80}))
	golden(t, "wide.txt", Text(many(3, 20), TextOptions{Columns: 80}))
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "small.json", string(text)+"\n")
}

// TestTextFits: no line is longer than the terminal, down to a width that no terminal has.
func TestTextFits(t *testing.T) {
	for name, m := range hosts() {
		for _, columns := range []int{48, 49, 57, 80, 100, 132, 250} {
			for _, ascii := range []bool{false, true} {
				text := Text(m, TextOptions{Columns: columns, ASCII: ascii})
				for line := range strings.Lines(text) {
					if line = strings.TrimSuffix(line, "\n"); termtext.Width(line) > columns || strings.HasSuffix(line, " ") {
						t.Errorf("%s, %d columns: a line has %d: %q", name, columns, termtext.Width(line), line)
					}
				}
				if ascii && strings.ContainsFunc(strings.ReplaceAll(text, "日本語-テスト", ""), func(r rune) bool { return r > 126 }) && name != "long" {
					t.Errorf("%s is not in ASCII:\n%s", name, text)
				}
			}
		}
	}
}

// TestColours change nothing but colours.
func TestColours(t *testing.T) {
	for name, m := range hosts() {
		coloured := Text(m, TextOptions{Columns: 80, Colours: true})
		if plain := withoutColours(coloured); plain != Text(m, TextOptions{Columns: 80}) {
			t.Errorf("%s, without the colours:\n%s", name, plain)
		}
	}
	text := Text(small(), TextOptions{Colours: true})
	for _, want := range []string{"\x1b[1mhost node-7\x1b[0m", "\x1b[31m! interface is down\x1b[0m", "\x1b[32mattached\x1b[0m", "\x1b[31mpending\x1b[0m", "\x1b[36mweb"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%q", want, text)
		}
	}
}

func withoutColours(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(s, "\x1b[") {
		if i > 0 {
			_, part, _ = strings.Cut(part, "m")
		}
		b.WriteString(part)
	}
	return b.String()
}

// TestRails: every attachment is on the rail of its network, and a rail ends with its last.
func TestRails(t *testing.T) {
	text := Text(many(9, 4), TextOptions{})
	heads := map[string]int{}
	last := map[int]int{}
	lines := strings.Split(text, "\n")
	joints := 0
	for i, line := range lines {
		columns := []rune(line)
		if at := slices.Index(columns, '╭'); at >= 0 {
			heads[strings.Fields(strings.TrimLeft(line, "│╭─ "))[0]] = at
		}
		if at := slices.Index(columns, '●'); at >= 0 {
			joints++
			if network := strings.Fields(strings.TrimLeft(line, "│●┼─ "))[1]; heads[network] != at {
				t.Errorf("%q is on the rail %d, want %d", line, at, heads[network])
			}
			last[at] = i
		}
	}
	if joints != 27 || len(heads) != 4 {
		t.Errorf("%d joints on %d rails, want 27 on 4:\n%s", joints, len(heads), text)
	}
	for at, i := range last {
		for _, line := range lines[i+1:] {
			if columns := []rune(line); len(columns) > at && (columns[at] == '│' || columns[at] == '┼') {
				t.Errorf("the rail %d goes on below its last attachment: %q", at, line)
			}
		}
	}
}

// TestSize: large numbers are powers of two.
func TestSize(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "65533": "65533", "16777216": "16777216", "16777217": "2^24", "18446744073709551613": "2^64", "6": "6"} {
		n, _ := new(big.Int).SetString(text, 10)
		if got := size(n); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestBar: a used address shows, and the colours are those of nearly full pools.
func TestBar(t *testing.T) {
	for _, test := range []struct {
		used, total int64
		cells       int
		style       style
	}{{0, 0, 0, green}, {0, 10, 0, green}, {1, 65533, 1, green}, {79, 100, 9, green}, {80, 100, 9, yellow}, {95, 100, 11, red}, {100, 100, 12, red}, {9, 5, 12, red}} {
		p := Pool{Used: int(test.used), Total: big.NewInt(test.total)}
		if p.cells(barCells) != test.cells || barStyle(p) != test.style {
			t.Errorf("%d of %d: %d cells in colour %s, want %d in %s", test.used, test.total, p.cells(barCells), barStyle(p), test.cells, test.style)
		}
	}
}

// element is one of an SVG, with its text.
type element struct {
	name  string
	attrs map[string]string
	text  string
}

// parseSVG returns the elements of a document, which has to be well-formed.
func parseSVG(t *testing.T, text string) []element {
	t.Helper()
	var all []element
	var open []int
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{token.Name.Local, map[string]string{}, ""}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			open, all = append(open, len(all)), append(all, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				all[open[len(open)-1]].text += string(token)
			}
		default:
			t.Fatalf("the SVG has %T %v", token, token)
		}
	}
}

// requireInert fails the test if an SVG could load or execute anything.
func requireInert(t *testing.T, all []element) {
	t.Helper()
	allowed := map[string][]string{
		"svg": {"xmlns", "viewBox", "width", "height", "role", "space", "aria-labelledby"}, "title": {"id"}, "desc": {"id"}, "style": {}, "g": {},
		"rect": {"class", "x", "y", "width", "height", "rx"}, "path": {"class", "d"}, "circle": {"class", "cx", "cy", "r"},
		"text": {"class", "x", "y", "textLength", "lengthAdjust"},
	}
	for _, e := range all {
		attributes, ok := allowed[e.name]
		for name := range e.attrs {
			ok = ok && slices.Contains(attributes, name)
		}
		if !ok {
			t.Errorf("the SVG has %s %v", e.name, e.attrs)
		}
		if e.name == "style" && e.text != styleSheet {
			t.Errorf("the style is %q", e.text)
		}
	}
	if strings.Contains(styleSheet, "url") || strings.Contains(styleSheet, "@import") {
		t.Error("the style loads something")
	}
}

// TestSVG: it is well-formed and inert, no text leaves the image or the card, and it is described
// in words.
func TestSVG(t *testing.T) {
	for name, m := range hosts() {
		all := parseSVG(t, SVG(m))
		requireInert(t, all)
		var width, height float64
		if _, err := fmt.Sscanf(all[0].attrs["viewBox"], "0 0 %f %f", &width, &height); err != nil {
			t.Fatal(err)
		}
		attached := 0
		for _, e := range all {
			if e.name != "text" {
				continue
			}
			x, y, length := number(t, e.attrs["x"]), number(t, e.attrs["y"]), number(t, e.attrs["textLength"])
			if x < margin || x+length > width-margin || y > height {
				t.Errorf("%s: %q is at %v, %v with %v, and the image has %v, %v", name, e.text, x, y, length, width, height)
			}
			if e.text == "attached" {
				attached++
			}
		}
		described := strings.Count(all[2].text, ", attached")
		if all[1].name != "title" || all[2].name != "desc" || described != attached {
			t.Errorf("%s: %d attachments are drawn, and %d described in %q", name, attached, described, all[2].text)
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func BenchmarkText(b *testing.B) {
	m := many(1000, 5)
	for b.Loop() {
		Text(m, TextOptions{Columns: 80, Colours: true})
	}
}

func BenchmarkSVG(b *testing.B) {
	m := many(1000, 5)
	for b.Loop() {
		SVG(m)
	}
}
