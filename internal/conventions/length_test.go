// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The most lines of functions. The linter's funlen holds the last one, too.
const (
	medianLines = 12
	p95Lines    = 30
	mostLines   = 60
)

// function is a function of the module, with the number of lines between the
// braces of its body: blank lines and comments count, and literals inside count
// for the function around them. A body in one line has one.
type function struct {
	lines int
	name  string
}

// functions returns the functions of a file with a body.
func functions(t *testing.T, path string, data []byte) []function {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, data, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []function
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			begin, end := set.Position(f.Body.Lbrace).Line, set.Position(f.Body.Rbrace).Line
			found = append(found, function{max(1, end-begin-1), fmt.Sprintf("%s:%d: %s", path, begin, f.Name.Name)})
		}
	}
	return found
}

// TestFunctionLengths: functions are short. Tests are not counted.
func TestFunctionLengths(t *testing.T) {
	var all []function
	for _, path := range files(t, "../..", regexp.MustCompile(`\.go$`)) {
		if !strings.HasSuffix(path, "_test.go") {
			all = append(all, functions(t, path, read(t, filepath.Join("../..", path)))...)
		}
	}
	slices.SortFunc(all, func(a, b function) int { return a.lines - b.lines })
	median, p95 := all[len(all)/2], all[len(all)*95/100]
	t.Logf("%d functions: median %d, 95th percentile %d, longest %d (%s)", len(all), median.lines, p95.lines, all[len(all)-1].lines, all[len(all)-1].name)
	if median.lines > medianLines || p95.lines > p95Lines {
		t.Errorf("the median is %d and the 95th percentile %d, want at most %d and %d", median.lines, p95.lines, medianLines, p95Lines)
	}
	for _, f := range all {
		if f.lines > mostLines {
			t.Errorf("%s has %d lines, want at most %d", f.name, f.lines, mostLines)
		}
	}
}

// TestLinesAreCounted: the lines between the braces count.
func TestLinesAreCounted(t *testing.T) {
	code := "package p\n\nfunc a() {}\nfunc b() int { return 1 }\nfunc c(\n\tx int,\n) {\n\t// why\n\n\tgo func() {\n\t\tb()\n\t}()\n}\nfunc d()\n"
	want := []function{{1, "p.go:3: a"}, {1, "p.go:4: b"}, {5, "p.go:7: c"}}
	if got := functions(t, "p.go", []byte(code)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
