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

var (
	// selected matches the short form of a selection, and the network of a group.
	selected = regexp.MustCompile(`(?:--(?:primary|networks?) |networks"? *[=:] *"|mode += "cni/)([a-z][a-z0-9]*(?:@[a-z0-9]+)?(?:,[a-z][a-z0-9]*(?:@[a-z0-9]+)?)*)`)
	defined  = regexp.MustCompile(`(?m)^  "name": "([^"]+)"`)
	examples = regexp.MustCompile(`^(README\.md|docs/[^/]*\.md|dist/jobs/.*\.hcl|cmd/allocnet/([a-z]+/)?[a-z]+\.go)$`)
)

// made matches the networks that a document has its reader make.
var made = regexp.MustCompile(`(?m)^ +"name": "([^"]+)"|(?:conf generate [a-z]+ --name|network create) ([a-z]+)`)

// TestExampleNetworks: the networks of all examples are in dist/conf, so that the examples
// work with it, or are made by the document.
func TestExampleNetworks(t *testing.T) {
	known := []string{"multi", "host", "and", "or"} // the conflist of allocnet-cni, podman's network, and prose
	for _, path := range files(t, "../../dist/conf", regexp.MustCompile(`\.conflist$`)) {
		for _, m := range defined.FindAllSubmatch(read(t, filepath.Join("../../dist/conf", path)), -1) {
			known = append(known, string(m[1]))
		}
	}
	found := 0
	for _, path := range files(t, "../..", regexp.MustCompile(`\.(md|hcl|go)$`)) {
		if !examples.MatchString(path) {
			continue
		}
		for _, name := range unknownNetworks(read(t, filepath.Join("../..", path)), known) {
			t.Errorf("%s: no network %q in dist/conf", path, name)
		}
		found++
	}
	if found < 20 {
		t.Errorf("only %d files have examples", found)
	}
	if got := unknownNetworks([]byte("conf generate web --name own\n  \"name\": \"new\"\nmode = \"cni/own\" --primary new attach a --primary web --networks storage,peer@net7\nmode = \"cni/x\""), []string{"web", "storage"}); !slices.Equal(got, []string{"peer", "x"}) {
		t.Errorf("found %v, want peer and x", got)
	}
}

// unknownNetworks returns the selected networks of a text that are not known.
func unknownNetworks(text []byte, known []string) []string {
	var names []string
	known = slices.Clone(known)
	for _, m := range made.FindAllSubmatch(text, -1) {
		known = append(known, string(m[1])+string(m[2]))
	}
	for _, m := range selected.FindAllSubmatch(text, -1) {
		for element := range strings.SplitSeq(string(m[1]), ",") {
			if name, _, _ := strings.Cut(element, "@"); !slices.Contains(known, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
