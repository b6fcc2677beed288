// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var markdown = regexp.MustCompile(`\.md$`)

// TestLinks: links between the documents lead to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	for _, path := range files(t, "../..", markdown) {
		for _, link := range brokenLinks(t, "../..", path) {
			t.Errorf("%s: %s leads nowhere", path, link)
		}
	}
}

// link is one to another place than a web address.
var link = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)

// brokenLinks returns the links of a document whose file or heading does not exist.
func brokenLinks(t *testing.T, root, path string) []string {
	t.Helper()
	var broken []string
	for _, m := range link.FindAllStringSubmatch(string(read(t, filepath.Join(root, path))), -1) {
		target := filepath.Join(root, path)
		if m[1] != "" {
			target = filepath.Join(root, filepath.Dir(path), m[1])
		}
		_, err := os.Stat(target)
		if err != nil || m[2] != "" && !slices.Contains(anchors(read(t, target)), m[2]) {
			broken = append(broken, strings.TrimPrefix(m[0], "]"))
		}
	}
	return broken
}

var (
	heading     = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the names that GitHub gives a document's headings.
func anchors(document []byte) []string {
	var all []string
	for _, m := range heading.FindAllSubmatch(document, -1) {
		plain := notInAnchor.ReplaceAllString(strings.ToLower(string(m[1])), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

var (
	image    = regexp.MustCompile(`!\[[^\]]*\]\(([^)]+)\)`)
	packaged = regexp.MustCompile(`src: "?([^",]+)"?, dst: /usr/share/doc/allocnet/`)
)

// TestPackagedImages: the packages have the images of the documents that they have.
func TestPackagedImages(t *testing.T) {
	var patterns []string
	for _, m := range packaged.FindAllSubmatch(read(t, "../../dist/nfpm.yaml"), -1) {
		patterns = append(patterns, string(m[1]))
	}
	has := func(path string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { ok, err := filepath.Match(pattern, path); return err == nil && ok })
	}
	found := 0
	for _, path := range files(t, "../..", markdown) {
		if !has(path) {
			continue
		}
		for _, m := range image.FindAllSubmatch(read(t, filepath.Join("../..", path)), -1) {
			found++
			if target := filepath.Join(filepath.Dir(path), string(m[1])); !has(target) {
				t.Errorf("%s shows %s, which dist/nfpm.yaml does not pack", path, target)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d images in the documents of %q", found, patterns)
	}
}

// TestBrokenLinksAreFound: by file and by heading.
func TestBrokenLinksAreFound(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("b.md", "# A `b`, and c\n")
	write("a.md", "# Top\n[1](b.md) [2](b.md#a-b-and-c) [3](#top) [4](https://example.org/x#y)\n[5](c.md) [6](b.md#a-b) [7](#bottom)\n")
	requireSame(t, "a.md", brokenLinks(t, root, "a.md"), []string{"(c.md)", "(b.md#a-b)", "(#bottom)"})
}

// TestIndex: the index has every page, and README.md has the index.
func TestIndex(t *testing.T) {
	if !strings.Contains(string(read(t, "../../README.md")), "](docs/README.md)") {
		t.Error("README.md has no link to docs/README.md")
	}
	index := string(read(t, "../../docs/README.md"))
	for _, page := range files(t, "../../docs", markdown) {
		if page != "README.md" && !strings.Contains(index, "]("+page+")") {
			t.Errorf("docs/README.md has no link to %s", page)
		}
	}
}

// TestArchitecture: the paths that ARCHITECTURE.md names exist, and it has every
// package.
func TestArchitecture(t *testing.T) {
	document := read(t, "../../ARCHITECTURE.md")
	for _, path := range missing("../..", paths(document)) {
		t.Errorf("ARCHITECTURE.md names %s, which does not exist", path)
	}
	named := paths(document)
	for _, path := range files(t, "../..", regexp.MustCompile(`\.go$`)) {
		if folder := filepath.Dir(path); !strings.HasPrefix(folder, "tools") && !slices.Contains(named, folder) {
			t.Errorf("ARCHITECTURE.md does not have the package %s", folder)
			named = append(named, folder)
		}
	}
}

// modulePath is a path of this module in a code span.
var modulePath = regexp.MustCompile("`([a-zA-Z0-9_-][a-zA-Z0-9_.*-]*/[a-zA-Z0-9_./*-]*|[a-z]+/)`")

// upstream are names with a slash that are no paths of this module.
var upstream = regexp.MustCompile(`^(github\.com|nomad/api)/?`)

// paths returns the paths of this module in a document.
func paths(document []byte) []string {
	var all []string
	for _, m := range modulePath.FindAllSubmatch(document, -1) {
		if path := string(m[1]); !upstream.MatchString(path) {
			all = append(all, filepath.Clean(path))
		}
	}
	return all
}

// missing returns the paths without a file. They may be patterns.
func missing(root string, paths []string) []string {
	var all []string
	for _, path := range paths {
		if found, err := filepath.Glob(filepath.Join(root, path)); err != nil || len(found) == 0 {
			all = append(all, path)
		}
	}
	return all
}

// TestMissingPathsAreFound: files, folders and patterns.
func TestMissingPathsAreFound(t *testing.T) {
	document := "`a/`, `b/c.go` and `b/*_test.go`, not `/run/netns` or `a`; `gone/`, `b/gone.go`, `b/*.md`"
	root := t.TempDir()
	for _, path := range []string{"a/x", "b/c.go", "b/c_test.go"} {
		if err := os.MkdirAll(filepath.Join(root, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	requireSame(t, "document", missing(root, paths([]byte(document))), []string{"gone", "b/gone.go", "b/*.md"})
}
