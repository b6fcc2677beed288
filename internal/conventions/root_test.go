// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNamesSayRoot: outside of e2e, the tests that `make check` leaves out by their name are those that
// require root.
func TestNamesSayRoot(t *testing.T) {
	named := 0
	packages := map[string]string{}
	for _, path := range files(t, "../..", regexp.MustCompile(`_test\.go$`)) {
		if strings.HasPrefix(path, "e2e/") {
			continue
		}
		data := read(t, filepath.Join("../..", path))
		named += strings.Count(string(data), "\nfunc TestRoot")
		for _, name := range misnamed(t, path, data) {
			t.Errorf("%s: %s: want roottest.Require(t) as the first statement of each TestRoot…, and nowhere else; and sandbox.MainIfRoot", path, name)
		}
		packages[filepath.Dir(path)] += string(data)
	}
	for _, dir := range onTheMachine(packages) {
		t.Errorf("%s: its TestRoot… would change the machine: want os.Exit(sandbox.MainIfRoot(…)) in TestMain", dir)
	}
	if named < 40 {
		t.Errorf("only %d tests need root", named)
	}
}

// entering is how the tests of a package enter a sandbox.
var entering = regexp.MustCompile(`\nfunc TestMain\(m \*testing\.M\) \{\n(?:\t.*\n)*\tos\.Exit\(sandbox\.MainIfRoot\(`)

// onTheMachine returns the packages that have tests which need root, and no sandbox for them.
func onTheMachine(packages map[string]string) (found []string) {
	for dir, source := range packages {
		if strings.Contains(source, "\nfunc TestRoot") && !entering.MatchString(source) {
			found = append(found, dir)
		}
	}
	slices.Sort(found)
	return found
}

// TestOnTheMachine: by the call in TestMain.
func TestOnTheMachine(t *testing.T) {
	const test, inMain = "\nfunc TestRootA(t *testing.T) {\n", "\nfunc TestMain(m *testing.M) {\n\tfakecni.Main()\n\tos.Exit(%s(m.Run))\n}\n"
	requireSame(t, "packages", onTheMachine(map[string]string{
		"without": test, "other": test + fmt.Sprintf(inMain, "inMemory"), "elsewhere": test + "\nfunc f() {\n\tos.Exit(sandbox.MainIfRoot(m.Run))\n}\n",
		"good": test + fmt.Sprintf(inMain, "sandbox.MainIfRoot"), "none": "\nfunc TestA(t *testing.T) {\n",
	}), []string{"elsewhere", "other", "without"})
}

// TestCheckHasNoRoot: make check runs the unit tests without root's capabilities, so that one which needs these
// fails also where all tests run as root.
func TestCheckHasNoRoot(t *testing.T) {
	read(t, "../../GNUmakefile") // a change of it invalidates the cached result
	dry := exec.Command("make", "-n", "check", "UNIT=unit", "UNPRIVILEGED=unprivileged")
	dry.Dir = "../.."
	out, err := dry.CombinedOutput()
	if want := " unprivileged go test -vet=off -skip '^TestRoot' unit\n"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("make check: %v, %s, want %q", err, out, want)
	}
}

// misnamed returns the functions of a file that require root without saying so in their name, or
// the other way round, and those that have all tests of the package require it.
func misnamed(t *testing.T, path string, data []byte) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, data, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var want []string
		if strings.HasPrefix(f.Name.Name, "TestRoot") {
			want = []string{"roottest.Require"}
		}
		if calls := rootCalls(f); !slices.Equal(calls, want) || want != nil && !beginsWith(f, want[0]) {
			found = append(found, f.Name.Name)
		}
	}
	return found
}

// rootCalls returns the functions that a function calls which require root.
func rootCalls(f *ast.FuncDecl) (calls []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if name := types.ExprString(s); slices.Contains([]string{"roottest.Require", "sandbox.Main", "sandbox.MainDivided"}, name) {
				calls = append(calls, name)
			}
		}
		return true
	})
	return calls
}

// beginsWith returns whether the first statement of a function calls another.
func beginsWith(f *ast.FuncDecl, callee string) bool {
	first, ok := f.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := first.X.(*ast.CallExpr)
	return ok && types.ExprString(call.Fun) == callee
}

// TestMisnamedTestsAreFound: by the name, the call and its place.
func TestMisnamedTestsAreFound(t *testing.T) {
	code := "package p\n\nfunc TestRootA(t *testing.T) { roottest.Require(t); b() }\nfunc TestRootB(t *testing.T) { b() }\nfunc TestC(t *testing.T) { roottest.Require(t) }\n" +
		"func TestRootD(t *testing.T) { b(); roottest.Require(t) }\nfunc TestRootE(t *testing.T) { t.Run(\"\", roottest.Require) }\nfunc f(t *testing.T) { func() { roottest.Require(t) }() }\n" +
		"func TestMain(m *testing.M) { os.Exit(sandbox.Main(m.Run)) }\nfunc TestG(t *testing.T) { sandbox.MainIfRoot(nil) }\n"
	requireSame(t, "p", misnamed(t, "p_test.go", []byte(code)), []string{"TestRootB", "TestC", "TestRootD", "TestRootE", "f", "TestMain"})
}
