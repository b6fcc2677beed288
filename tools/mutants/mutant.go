// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mutant is one change of a source file, which is on while the tests run with its number: before stands in front of the
// bytes from begin to end, and after behind them. One of them has its number, as %d.
type mutant struct {
	path, function, change string
	line, begin, end       int
	before, after          string
	// decides tells whether it is of a line or function that deletes, refuses or decides who lives.
	decides bool
}

// String names a mutant without its line, so that a list of them outlasts other changes of the file.
func (m mutant) String() string { return m.path + " " + m.function + ": " + m.change }

// decides matches lines and names of functions that delete, refuse or decide who lives.
var decides = regexp.MustCompile(`(?i)remov|delet|\bdel[A-Z]|drop|clear|forget|releas|refus|invalid|forbid|deny|denied|unknown|` +
	`alive|live|dead|gone|stale|leak|leftover|missing|exist|damage|unchanged|pending|errors\.New|Errorf|\bErr[A-Z]`)

// logs matches statements that only tell.
var logs = regexp.MustCompile(`(?i)\blog(ger)?(\(\))?\.(debug|info|warn|error)\(`)

// mutantsOf returns the mutants of a file, in order.
func mutantsOf(path string, source []byte) ([]mutant, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	v := &visitor{path: path, source: source, base: set.File(file.Pos()), seen: map[string]int{}}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			v.function = f.Name.Name
			v.visit(f.Body, f.Type)
		}
	}
	return v.mutants, nil
}

type visitor struct {
	path, function string
	source         []byte
	base           *token.File
	mutants        []mutant
	seen           map[string]int
}

// visit finds the mutants of a body of a function of this type.
func (v *visitor) visit(body ast.Node, of *ast.FuncType) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			v.visit(n.Body, n.Type)
			return false
		case *ast.IfStmt:
			v.boolean(n.Cond)
		case *ast.SwitchStmt:
			v.cases(n)
		case *ast.BinaryExpr:
			v.binary(n)
		case *ast.ReturnStmt:
			v.results(n, of)
		case *ast.BlockStmt:
			v.statements(n.List)
		case *ast.CaseClause:
			v.statements(n.Body)
		case *ast.CommClause:
			v.statements(n.Body)
		case *ast.ForStmt:
			v.oneRound(n, n.Body)
		case *ast.RangeStmt:
			v.oneRound(n, n.Body)
		case *ast.CompositeLit:
			v.fields(n.Elts)
		}
		return true
	})
}

func (v *visitor) boolean(x ast.Expr) {
	for _, value := range []string{"true", "false"} {
		if v.textOf(x.Pos(), x.End()) != value {
			v.always(x, value)
		}
	}
}

// always makes an operand constant. This is harder to notice than its negation, and than another operator.
func (v *visitor) always(x ast.Expr, value string) {
	before := map[string]string{"true": "(mutantIs(%d) || (", "false": "(!mutantIs(%d) && ("}[value]
	v.around(x.Pos(), x.End(), before, "))", "is "+value)
}

func (v *visitor) cases(n *ast.SwitchStmt) {
	for _, clause := range n.Body.List {
		for _, x := range clause.(*ast.CaseClause).List {
			if n.Tag == nil {
				v.boolean(x)
			}
		}
	}
}

func (v *visitor) binary(n *ast.BinaryExpr) {
	neutral := map[token.Token]string{token.LAND: "true", token.LOR: "false"}[n.Op]
	for _, x := range []ast.Expr{n.X, n.Y} {
		if inner, ok := x.(*ast.BinaryExpr); neutral != "" && (!ok || inner.Op != n.Op) {
			v.always(x, neutral)
		}
	}
	x, y := v.textOf(n.X.Pos(), n.X.End()), v.textOf(n.Y.Pos(), n.Y.End())
	switch n.Op {
	case token.LSS, token.GTR:
		v.around(n.Pos(), n.End(), "((", ") || mutantIs(%d) && ("+x+") == ("+y+"))", "has "+n.Op.String()+"=")
	case token.LEQ, token.GEQ:
		v.around(n.Pos(), n.End(), "((", ") && !(mutantIs(%d) && ("+x+") == ("+y+")))", "has "+n.Op.String()[:1])
	}
}

// results has a function return no error, and the other truth.
func (v *visitor) results(n *ast.ReturnStmt, of *ast.FuncType) {
	if of.Results == nil || len(n.Results) != of.Results.NumFields() {
		return
	}
	for i, x := range n.Results {
		field := of.Results.List[min(i, len(of.Results.List)-1)]
		kind, text := v.textOf(field.Type.Pos(), field.Type.End()), v.textOf(x.Pos(), x.End())
		switch {
		case kind == "error" && text != "nil":
			v.around(x.Pos(), x.End(), "mutantNil(%d, ", ")", "is nil")
		case kind == "bool":
			v.boolean(x)
		}
	}
}

func (v *visitor) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				v.drop(s.Pos(), s.End())
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt:
			v.drop(s.Pos(), s.End())
		}
	}
}

func (v *visitor) drop(begin, end token.Pos) {
	if !logs.MatchString(v.textOf(begin, end)) {
		v.around(begin, end, "if !mutantIs(%d) {", "}", "is dropped")
	}
}

// oneRound ends a loop after its first round.
func (v *visitor) oneRound(loop ast.Node, body *ast.BlockStmt) {
	end := v.base.Offset(body.Rbrace)
	v.add(loop.Pos(), body.Lbrace, mutant{begin: end, end: end, before: ";if mutantIs(%d) {break};"}, "has one round")
}

func (v *visitor) fields(list []ast.Expr) {
	for _, x := range list {
		if field, ok := x.(*ast.KeyValueExpr); ok {
			v.around(field.Value.Pos(), field.Value.End(), "mutantZero(%d, ", ")", "is zero")
		}
	}
}

// around adds a mutant of a part of the source.
func (v *visitor) around(begin, end token.Pos, before, after, how string) {
	v.add(begin, end, mutant{begin: v.base.Offset(begin), end: v.base.Offset(end), before: before, after: after}, how)
}

// add adds a mutant that is named by a part of the source. A further one of the same name has a number.
func (v *visitor) add(begin, end token.Pos, m mutant, how string) {
	m.path, m.function, m.line = v.path, v.function, v.base.Line(begin)
	m.decides = decides.MatchString(v.function) || decides.Match(v.twoLines(v.base.Offset(begin)))
	m.change = fmt.Sprintf("`%.100s` %s", strings.Join(strings.Fields(v.textOf(begin, end)), " "), how)
	v.seen[m.String()]++
	if number := v.seen[m.String()]; number > 1 {
		m.change += fmt.Sprintf(" (%d)", number)
	}
	v.mutants = append(v.mutants, m)
}

// twoLines returns the line of an offset and the next one: a condition and what it leads to.
func (v *visitor) twoLines(offset int) []byte {
	begin := bytes.LastIndexByte(v.source[:offset], '\n') + 1
	lines := bytes.SplitN(v.source[begin:], []byte("\n"), 3)
	return bytes.Join(lines[:min(2, len(lines))], []byte("\n"))
}

func (v *visitor) textOf(begin, end token.Pos) string {
	return string(v.source[v.base.Offset(begin):v.base.Offset(end)])
}

// helpers are what mutants call. None is on without a number.
const helpers = `package %s

import ("os"; "strconv")

var mutantNumber, _ = strconv.Atoi(os.Getenv("MUTANT"))

func mutantIs(number int) bool { return number == mutantNumber }

func mutantNil(number int, err error) error {
	if mutantIs(number) {
		return nil
	}
	return err
}

func mutantZero[T any](number int, value T) (zero T) {
	if mutantIs(number) {
		return zero
	}
	return value
}
`

// instrument returns a file with those of its mutants in it that are in the list, which has them in order. Their numbers
// are their places in the list, from 1 on. A line remains what it was.
func instrument(path string, source []byte, mutants []mutant) []byte {
	type insertion struct {
		offset, order int
		text          string
	}
	var all []insertion
	for i, m := range mutants {
		if m.path == path {
			all = append(all, insertion{m.begin, len(mutants) + i, numbered(m.before, i+1)}, insertion{m.end, -i, numbered(m.after, i+1)})
		}
	}
	// What ends at an offset comes before what begins there, and of those the outer one first: in the order of the source.
	slices.SortStableFunc(all, func(a, b insertion) int { return cmp.Or(a.offset-b.offset, a.order-b.order) })
	var result []byte
	last := 0
	for _, one := range all {
		result = append(append(result, source[last:one.offset]...), one.text...)
		last = one.offset
	}
	return append(result, source[last:]...)
}

func numbered(text string, number int) string {
	return strings.ReplaceAll(text, "%d", strconv.Itoa(number))
}
