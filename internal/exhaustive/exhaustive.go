// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package exhaustive has tests run all cases of an enumeration, such as a death at each effect, and
// a share of them with -short. The race detector takes five times as long for a case, and each case
// of an enumeration takes the same paths through the code that runs at the same time.
package exhaustive

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"testing"
)

// share is how many cases there are for each that runs with -short.
const share = 16

// Run runs a case as a subtest. With -short only cases that their names choose run, the same
// ones each time.
func Run(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	if testing.Short() && !chosen(t.Name()+"/"+name) {
		return
	}
	t.Run(name, test)
}

// Of returns those of cases that a test runs together: with -short the ones that Run would run. Their names are what fmt.Sprint makes of them.
func Of[T any](t *testing.T, cases []T) []T {
	t.Helper()
	if !testing.Short() {
		return cases
	}
	return slices.DeleteFunc(slices.Clone(cases), func(c T) bool { return !chosen(t.Name() + "/" + fmt.Sprint(c)) })
}

func chosen(name string) bool {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // never fails
	return hash.Sum32()%share == 0
}

// Count returns how many of n random cases run.
func Count(n uint64) uint64 {
	if testing.Short() {
		return n / share
	}
	return n
}

// InMemory runs tests whose temporary directories are in memory, where the system has such a place: thousands of cases
// write files, which a disk makes twice as expensive.
func InMemory(run func() int) int {
	dir, err := os.MkdirTemp("/dev/shm", "allocnet")
	if err != nil {
		return run()
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is of tests that have failed
	if err := os.Setenv("TMPDIR", dir); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}
