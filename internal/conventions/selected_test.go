// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSelected: the tests that make runs, or leaves out, by name are in the packages that it names, and something reads the
// variables that it sets for them. Otherwise Go runs less, and reports success.
func TestSelected(t *testing.T) {
	sources := folders(t, `\.go$`)
	makefile := string(read(t, "../../GNUmakefile"))
	if found := len(selection.FindAllString(makefile, -1)); found < 5 {
		t.Errorf("only %d selections in GNUmakefile", found)
	}
	for _, name := range unknownSelections(makefile, sources) {
		t.Errorf("GNUmakefile: %s is not there", name)
	}
}

var (
	// selection is one of tests, in packages.
	selection = regexp.MustCompile(`-(?:run|skip) '?(\^?\$?[^' ]+?)'?((?: \./\S+)+)`)
	// set is the assignment of a variable for a test.
	set = regexp.MustCompile(`\b(ALLOCNET_\w+)=`)
	// assigned is a variable of make.
	assigned = regexp.MustCompile(`(?m)^(\w+) := (.*)$`)
)

// unknownSelections returns the tests and variables of a makefile that the sources, by their package, lack.
func unknownSelections(makefile string, sources map[string]string) (unknown []string) {
	for _, m := range assigned.FindAllStringSubmatch(makefile, -1) {
		makefile = strings.ReplaceAll(makefile, "$("+m[1]+")", m[2])
	}
	all := ""
	for _, source := range sources {
		all += source
	}
	for _, m := range set.FindAllStringSubmatch(makefile, -1) {
		if !strings.Contains(all, `"`+m[1]+`"`) {
			unknown = append(unknown, m[1])
		}
	}
	for _, m := range selection.FindAllStringSubmatch(makefile, -1) {
		for _, name := range alternatives(m[1]) {
			if !slices.ContainsFunc(strings.Fields(m[2]), func(folder string) bool { return has(sources, folder, name) }) {
				unknown = append(unknown, name+" in"+m[2])
			}
		}
	}
	return unknown
}

// long begins the names of tests that make test leaves out.
const long = "TestLong"

// has tells whether a folder, or one below if it ends in /..., has the test.
func has(sources map[string]string, folder, test string) bool {
	root, below := strings.CutSuffix(folder, "/...")
	for path, source := range sources {
		if (path == root || below && strings.HasPrefix(path, root+"/")) && (strings.Contains(source, "func "+test+"(") || test == long && strings.Contains(source, "func "+long)) {
			return true
		}
	}
	return false
}

// alternatives returns the names that a pattern has, of the form that GNUmakefile uses.
func alternatives(pattern string) (names []string) {
	pattern, _, _ = strings.Cut(pattern, "/")
	prefix, rest, several := strings.Cut(strings.Trim(pattern, "^$|"), "(")
	if !several {
		return []string{prefix}
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(rest, ")"), "|") {
		names = append(names, prefix+name)
	}
	return names
}

// enumerates is the assignment of what tests call that have a share of their cases with -short.
var enumerates = regexp.MustCompile(`(?m)^ENUMERATES := (.*)$`)

// TestCasesAreSelected: make runs every case of the unit tests that have a share of them with -short. It finds these by what they call, so what calls
// that is a test, or is found itself.
func TestCasesAreSelected(t *testing.T) {
	m := enumerates.FindSubmatch(read(t, "../../GNUmakefile"))
	if m == nil {
		t.Fatal("GNUmakefile has no ENUMERATES")
	}
	found := 0
	for _, path := range files(t, "../..", regexp.MustCompile(`_test\.go$`)) {
		if strings.HasPrefix(path, "e2e/") || strings.HasPrefix(path, "tools/") {
			continue
		}
		tests, hidden := enumerating(string(read(t, filepath.Join("../..", path))), regexp.MustCompile(string(m[1])))
		found += len(tests)
		for _, name := range hidden {
			t.Errorf("%s: %s has a share of cases with -short: call that in a test, or add %s to ENUMERATES in GNUmakefile", path, name, name)
		}
	}
	if found < 12 {
		t.Errorf("only %d tests enumerate", found)
	}
}

// enumerating returns the tests of a file that call what matches, and other functions that do and do not match themselves.
func enumerating(source string, calls *regexp.Regexp) (tests, hidden []string) {
	for i, function := range strings.Split(source, "\nfunc ") {
		name, body, _ := strings.Cut(function, "(")
		switch {
		case i == 0 || !calls.MatchString(body):
		case strings.HasPrefix(name, "Test"):
			tests = append(tests, name)
		case !calls.MatchString(name):
			hidden = append(hidden, name)
		}
	}
	return tests, hidden
}

// TestEnumeratingIsFound: by function.
func TestEnumeratingIsFound(t *testing.T) {
	tests, hidden := enumerating("package a\n\nfunc TestA(t) {\n\tx.Run(t)\n}\n\nfunc TestB(t) {\n\tall(t)\n}\n\nfunc TestC(t) {\n}\n\nfunc all(t) {\n\tx.Run(t)\n}\n\nfunc some(t) {\n\tx.Run(t)\n}\n", regexp.MustCompile(`x[.]Run|all`))
	requireSame(t, "tests", tests, []string{"TestA", "TestB"})
	requireSame(t, "others", hidden, []string{"some"})
}

// TestUnknownSelectionsAreFound: by package.
func TestUnknownSelectionsAreFound(t *testing.T) {
	const makefile = `
SOME := ^Test(A|B|C)$$
one:
	ALLOCNET_KNOWN=1 ALLOCNET_GONE=$(X) go test -run '$(SOME)' ./e2e ./e2e/agent
	go test -run '^TestA$$/^(B|C)$$' ./e2e
	go test -run TestA ./e2e/agent
	go test -skip '^Test(B|D)$$' ./e2e ./e2e/agent
`
	sources := map[string]string{"./e2e": "func TestA(t", "./e2e/agent": `func TestB(t os.Getenv("ALLOCNET_KNOWN")`, "./other": "func TestC(t"}
	requireSame(t, "makefile", unknownSelections(makefile, sources), []string{"ALLOCNET_GONE", "TestC in ./e2e ./e2e/agent", "TestA in ./e2e/agent", "TestD in ./e2e ./e2e/agent"})
}
