// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package conventions has the tests that hold the module's own source and
// documents to the rules of CONTRIBUTING.md that no linter has.
package conventions

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// place is a kind of text in a file.
type place int

const (
	identifier place = 1 << iota
	// declaration is the name of a function, a method, a type or a field outside
	// of tests, as it is written.
	declaration
	comment
	literal
	document

	texts      = comment | literal | document
	everywhere = identifier | texts
)

func (p place) String() string {
	return map[place]string{identifier: "identifier", declaration: "name", comment: "comment", literal: "text", document: "document"}[p]
}

// passage is a text of one kind: a declared name as lower-case words, a comment,
// a string literal, or a whole document.
type passage struct {
	path string
	line int
	in   place
	text string
}

// skipped are folders that are not written for this module, and this one, which
// lists the words.
var skipped = []string{".git", "build", "testdata", "conventions"}

// documents are the names of files other than Go files that people read.
var documents = regexp.MustCompile(`\.(md|hcl|sh|service|socket|json|yml|conflist)$|^GNUmakefile$|^(run|postinst|postrm|prerm)$`)

// files returns the module's files that have such names, by their paths in it.
func files(t *testing.T, root string, names *regexp.Regexp) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(skipped, d.Name()) {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && names.MatchString(d.Name()) {
			path, err = filepath.Rel(root, path)
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %d files, %v", root, len(found), err)
	}
	return found
}

// passages returns what the module's files say.
func passages(t *testing.T, root string) []passage {
	t.Helper()
	var all []passage
	for _, path := range files(t, root, regexp.MustCompile(`\.go$|`+documents.String())) {
		all = append(all, parse(t, path, read(t, filepath.Join(root, path)))...)
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// marker is what a line of a comment begins with.
var marker = regexp.MustCompile(`(?m)^\s*(#|//)+`)

// parse returns what a file says, its name included.
func parse(t *testing.T, path string, data []byte) []passage {
	t.Helper()
	name, ext := filepath.Base(path), filepath.Ext(path)
	found := []passage{{path, 0, identifier, words(strings.TrimSuffix(name, ext))}}
	if ext != ".go" {
		return append(found, passage{path, 1, document, marker.ReplaceAllString(string(data), "")})
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, data, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	add := func(at token.Pos, in place, text string) {
		found = append(found, passage{path, set.Position(at).Line, in, text})
	}
	for _, group := range file.Comments {
		add(group.Pos(), comment, group.Text())
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				add(lit.Pos(), literal, text)
			}
		}
		for _, name := range declared(n) {
			add(name.Pos(), identifier, words(name.Name))
			if lasting(n) && !strings.HasSuffix(path, "_test.go") {
				add(name.Pos(), declaration, name.Name)
			}
		}
		return true
	})
	return found
}

// lasting tells whether a node declares names that are used in other places.
func lasting(n ast.Node) bool {
	switch n.(type) {
	case *ast.FuncDecl, *ast.TypeSpec, *ast.Field:
		return true
	}
	return false
}

// declared returns the identifiers that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.File:
		return []*ast.Ident{n.Name}
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.LabeledStmt:
		return []*ast.Ident{n.Label}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return idents(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			return idents(n.Key, n.Value)
		}
	}
	return nil
}

func idents(list ...ast.Expr) []*ast.Ident {
	var found []*ast.Ident
	for _, e := range list {
		if name, ok := e.(*ast.Ident); ok {
			found = append(found, name)
		}
	}
	return found
}

// words returns the words of a name in camel case or with underscores, in lower case.
func words(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		begins := unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Join(strings.FieldsFunc(b.String(), func(r rune) bool { return strings.ContainsRune(" _-.", r) }), " ")
}

// TestWords: a name is its words.
func TestWords(t *testing.T) {
	for name, want := range map[string]string{
		"parseWishes": "parse wishes", "wish_type": "wish type", "HTTPServer": "http server",
		"isMAC": "is mac", "x": "x", "line_test": "line test", "RLockHost": "r lock host",
	} {
		if got := words(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// requireSame compares what was found in one file, in any order.
func requireSame(t *testing.T, path string, got, want []string) {
	t.Helper()
	for i, s := range got {
		got[i] = strings.Join(strings.Fields(s), " ")
	}
	slices.Sort(got)
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", path, got, want)
	}
}
