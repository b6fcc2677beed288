// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// event is a line of `go test -json`.
type event struct {
	Action, Package, Test, Key, Value string
}

// result is that of all tests with one version.
type result struct {
	succeeded, failed int
	// properties are the values that tests have measured. That of a test that failed is
	// "**fails**".
	properties map[string]string
}

func (r *result) String() string {
	if r.failed == 0 {
		return fmt.Sprintf("%d passed", r.succeeded)
	}
	return fmt.Sprintf("%d passed, %d failed", r.succeeded, r.failed)
}

// readResult reads the output of `go test -json`.
func readResult(path string) (*result, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	var events []event
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", path, err, lines.Text())
		}
		events = append(events, e)
	}
	return evaluate(events), lines.Err()
}

// failed is the value of a property whose test failed.
const failed = "**fails**"

// evaluate counts tests, and takes the properties of those that passed.
func evaluate(events []event) *result {
	outcome := map[string]string{}
	for _, e := range events {
		if e.Action == "pass" || e.Action == "fail" {
			outcome[e.Package+" "+e.Test] = e.Action
		}
	}
	r := &result{properties: map[string]string{}}
	for _, e := range events {
		if e.Action != "attr" {
			continue
		}
		r.properties[e.Key] = e.Value
		if outcome[e.Package+" "+e.Test] != "pass" {
			r.properties[e.Key] = failed
		}
	}
	r.count(outcome)
	return r
}

// count counts the tests without subtests. A test with subtests, and a package, count only
// if they fail and none of theirs does: what prepares the tests failed, or the build.
func (r *result) count(outcome map[string]string) {
	explained := map[string]bool{}
	for test, action := range outcome {
		for _, parent := range parents(test) {
			explained[parent] = explained[parent] || action == "fail" || outcome[parent] == "pass"
		}
	}
	for test, action := range outcome {
		switch {
		case explained[test]:
		case action == "fail":
			r.failed++
		case !strings.HasSuffix(test, " "): // a package without tests
			r.succeeded++
		}
	}
}

// parents returns the tests that a test is part of, and its package.
func parents(test string) []string {
	name, words, _ := strings.Cut(test, " ")
	if words == "" {
		return nil
	}
	all := []string{name + " "}
	for i, c := range words {
		if c == '/' {
			all = append(all, name+" "+words[:i])
		}
	}
	return all
}
