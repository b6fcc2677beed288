// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const rows = `part: Peers
date: 2026-11-29
machine: 2 cores
load: 0.10
with: netavark 1.17.2

BenchmarkPeers/nftables/k=1-2 	      20	         0 ns/op	        10.00 by-agent-add-ms	        20.00 netavark-add-ms	        12.00 allocnet-add-ms
BenchmarkPeers/nftables/k=3 	20	14.00 by-agent-add-ms	40.00 netavark-add-ms
part: Growth
date: 2026-11-22
machine: 4 cores
load: 1.00
BenchmarkGrowth/nftables/ipv6=off/others=100-2 1 1.25 add/first 30 allocnet-add-ms
`

// directory is one with rows and a page.
func directory(t *testing.T, rows, page string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"benchmarks.txt": rows, "benchmarks.md": page} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestRun: sections are written from the rows of their parts, each with its own date, without what has no figure, and the rest of the
// page stays.
func TestRun(t *testing.T) {
	dir := directory(t, rows, "# Page\n"+begin+"peers -->\nold\n"+end+"between\n"+begin+"growth -->\n"+end+"after\n")
	for range 2 { // what is written can be written again
		if err := run([]string{dir}); err != nil {
			t.Fatal(err)
		}
	}
	page := read(t, filepath.Join(dir, "benchmarks.md"))
	for _, want := range []string{
		"# Page\n" + begin + "peers -->\n\n| time", "| attach, with the agent | 0.50, 0.35, - |\n", "| attach, without | 0.60, -, - |\n\n",
		"Measured on 2026-11-29: 2 cores, load 0.10 at the start; netavark 1.17.2.\n\n" + end + "between\n",
		"attach, 100 |\n| --- | ---: |\n| nftables, IPv6 off | 1.2 |\n\n", "Measured on 2026-11-22: 4 cores, load 1.00 at the start.\n\n" + end + "after\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "old") {
		t.Errorf("what was there is there still:\n%s", page)
	}
	for name, want := range map[string]string{"benchmarks.svg": ">14<", "growth.svg": "allocnet, nftables, IPv6 off"} {
		drawn := read(t, filepath.Join(dir, name))
		requireXML(t, name, drawn)
		if !strings.Contains(drawn, want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
}

func requireXML(t *testing.T, name, text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct{ rows, page, want string }{
		"a section that is none": {rows, begin + "other -->\n" + end, `"other"`},
		"a section without end":  {rows, begin + "peers -->\n", `"peers"`},
		"a row of no part":       {"BenchmarkX 1 2 ms\n", "", "before the first part"},
		"a value that is none":   {"part: X\nBenchmarkX 1 many ms\n", "", "many"},
	} {
		if err := run([]string{directory(t, test.rows, test.page)}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	if run(nil) == nil || run([]string{t.TempDir()}) == nil {
		t.Error("without a page it has no error")
	}
}

// TestPage: the page of the documentation is what its rows make.
func TestPage(t *testing.T) {
	const docs = "../../docs"
	r, err := parse(read(t, docs+"/benchmarks.txt"))
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, docs+"/benchmarks.md")
	if filled, err := fill(page, r); err != nil || filled != page {
		t.Errorf("docs/benchmarks.md is not made of docs/benchmarks.txt: run go run ./tools/benchmarks docs (%v)", err)
	}
	for name := range sections {
		if !strings.Contains(page, begin+name+" -->") {
			t.Errorf("docs/benchmarks.md lacks the section %s", name)
		}
	}
	for name, drawn := range map[string]string{"benchmarks.svg": r.drawBars(), "growth.svg": r.drawLines()} {
		if read(t, docs+"/"+name) != drawn {
			t.Errorf("docs/%s is not drawn from docs/benchmarks.txt", name)
		}
	}
}
