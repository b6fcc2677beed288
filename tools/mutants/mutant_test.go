// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

const example = `package p

func remove(all []string, n int) (bool, error) {
	for _, one := range all {
		if one == "" || n < 1 {
			continue
		}
		log.Info("removed")
		drop(one, thing{mac: "m"})
		n = 2
	}
	switch {
	case n > 0 && all != nil:
		return true, errors.New("x")
	}
	return found()
}

func keep() { f() }
`

// TestMutants: each kind of change, of what decides, and all of them are Go.
func TestMutants(t *testing.T) {
	mutants, err := mutantsOf("p.go", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants {
		if !m.decides {
			continue
		}
		got = append(got, m.change)
	}
	changed := instrument("p.go", []byte(example), mutants)
	if _, err := parser.ParseFile(token.NewFileSet(), "changed", changed, 0); err != nil || strings.Count(string(changed), "\n") != strings.Count(example, "\n") {
		t.Errorf("%v, want the same lines in\n%s", err, changed)
	}
	if none := instrument("q.go", []byte(example), mutants); string(none) != example {
		t.Errorf("mutants of p.go in another file:\n%s", none)
	}
	want := []string{
		"`for _, one := range all` has one round",
		"`one == \"\" || n < 1` is true", "`one == \"\" || n < 1` is false",
		"`drop(one, thing{mac: \"m\"})` is dropped", "`n = 2` is dropped",
		"`one == \"\"` is false", "`n < 1` is false", "`n < 1` has <=", "`continue` is dropped",
		"`\"m\"` is zero",
		"`n > 0 && all != nil` is true", "`n > 0 && all != nil` is false", "`n > 0` is true", "`all != nil` is true", "`n > 0` has >=",
		"`true` is false", "`errors.New(\"x\")` is nil",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAccepted: each accepted mutant is one of today's source, and has a reason.
func TestAccepted(t *testing.T) {
	t.Chdir("../..")
	accepted, err := readAccepted()
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range accepted {
		path, _, _ := strings.Cut(name, " ")
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		mutants, err := mutantsOf(path, source)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.String() == name }) || reason == "" {
			t.Errorf("%q in %s: want a mutant of today's source, and a reason", name, acceptedFile)
		}
	}
}

// TestTestsOf: a part is tested with the whole, which imports it.
func TestTestsOf(t *testing.T) {
	t.Chdir("../..")
	for dir, want := range map[string][]string{"cleanup": {"cleanup"}, "hook/internal/remove": {"hook/internal/remove", "hook"}, "hook/internal/check": {"hook"}, "internal/netns": {"internal/netns"}} {
		if got := testsOf(dir); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}
