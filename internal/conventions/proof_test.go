// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityPage: each control of the threat model names tests that exist, and each fuzz target proves a control.
func TestSecurityPage(t *testing.T) {
	sources := folders(t, `_test\.go$`)
	rows := between(t, "../../docs/security.md", "## Appendix: controls", "## How these tests are run")
	requireTests(t, sources, rows)
	targets := regexp.MustCompile(`(?m)^func (Fuzz[A-Za-z]+)\(`)
	for dir, source := range sources {
		for _, target := range targets.FindAllStringSubmatch(source, -1) {
			if !strings.Contains(rows, "."+target[1]+"`") && !strings.HasPrefix(dir, "./internal/sandbox") {
				t.Errorf("%s: %s proves no control", dir, target[1])
			}
		}
	}
}

// TestFailuresPage: each row of what happens to allocations when something fails names tests that exist.
func TestFailuresPage(t *testing.T) {
	requireTests(t, folders(t, `_test\.go$`), "\n\n|"+between(t, "../../docs/cluster.md", "| failure | running allocations", "In networks that span hosts"))
}

// between returns what a document has between two texts.
func between(t *testing.T, path, from, to string) string {
	t.Helper()
	_, text, begins := strings.Cut(string(read(t, path)), from)
	text, _, ends := strings.Cut(text, to)
	if !begins || !ends {
		t.Fatalf("%s has no %q, or no %q after it", path, from, to)
	}
	return text
}

// folders are the sources whose names match, by their package's folder.
func folders(t *testing.T, names string) map[string]string {
	t.Helper()
	const root = "../.."
	sources := map[string]string{}
	for _, path := range files(t, root, regexp.MustCompile(names)) {
		sources["./"+filepath.Dir(path)] += string(read(t, filepath.Join(root, path)))
	}
	return sources
}

// requireTests requires tests that exist in each row of a table, which has two lines before it.
func requireTests(t *testing.T, sources map[string]string, rows string) {
	t.Helper()
	named := regexp.MustCompile("`([a-z0-9/-]+)\\.((?:Test|Fuzz)[A-Za-z]+)`")
	for _, row := range strings.Split(rows, "\n")[4:] {
		if strings.HasPrefix(row, "|") && !named.MatchString(row) {
			t.Errorf("no test: %s", row)
		}
	}
	for _, m := range named.FindAllStringSubmatch(rows, -1) {
		folder := "./" + m[1]
		if !has(sources, folder, m[2]) {
			t.Errorf("%s has no %s", folder, m[2])
		}
	}
}
