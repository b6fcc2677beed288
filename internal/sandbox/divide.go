// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// fewest is the number of tests that are worth a sandbox of their own.
const fewest = 4

// whole are the flags of a test program whose results are those of one process.
var whole = []string{"bench", "fuzz", "list", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace", "coverprofile", "gocoverdir"}

// value returns the value of a flag of this test program; of two, that of the last. A demo is no test
// program, and has none.
func value(name string) string {
	flag.Parse()
	if f := flag.Lookup("test." + name); f != nil {
		return f.Value.String()
	}
	return ""
}

// isWhole tells whether the selected tests run in one process.
func isWhole() bool {
	return flag.NArg() > 0 || strings.Contains(value("run"), "/") || slices.ContainsFunc(whole, func(name string) bool { return value(name) != "" })
}

// divide returns, for one process for each CPU, the arguments that select a part of the tests. Tests that
// are few stay together.
func divide() ([][]string, error) {
	if isWhole() {
		return undivided()
	}
	names, err := list(cmp.Or(value("run"), "."))
	if err != nil {
		return nil, err
	}
	count := min(runtime.NumCPU(), len(names)/fewest)
	if count < 2 {
		return undivided()
	}
	return share(names, count), nil
}

// share returns, for each of count processes, the argument that selects its tests: each test is one's.
func share(names []string, count int) [][]string {
	parts, shared := make([][]string, count), make([][]string, count)
	for i, name := range names {
		parts[i%count] = append(parts[i%count], name)
	}
	for i, part := range parts {
		shared[i] = []string{"-test.run=^(" + strings.Join(part, "|") + ")$"}
	}
	return shared
}

func undivided() ([][]string, error) { return [][]string{nil}, nil }

// long begins the names of the tests that make test leaves out: they are no reason for another sandbox.
const long = "TestLong"

// isTest matches the lines that a list of tests has, except benchmarks.
var isTest = regexp.MustCompile(`^(Test|Example|Fuzz)\S*$`)

// list returns the tests that a pattern selects, in their order.
func list(pattern string) ([]string, error) {
	cmd := again(listing, "-test.list="+pattern)
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("list the tests: %w: %s%s", err, &out, &fault)
	}
	leavesOut := strings.Contains(value("skip"), long)
	return slices.DeleteFunc(strings.Split(out.String(), "\n"), func(line string) bool {
		return !isTest.MatchString(line) || leavesOut && strings.HasPrefix(line, long)
	}), nil
}
