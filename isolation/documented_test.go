// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumented: each example of docs/isolation.md has no fault, and the table of what people want names rules that it has.
func TestDocumented(t *testing.T) {
	data, err := os.ReadFile("../docs/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	var names []string
	for _, block := range regexp.MustCompile("(?s)(?:```hcl|<<END)\n(.*?)\n(?:```|END\n)").FindAllStringSubmatch(page, -1) {
		r, err := parse("docs/isolation.md", []byte(block[1]))
		if err != nil {
			t.Errorf("%v in\n%s", err, block[1])
		}
		names = append(names, r.Names()...)
	}
	if len(names) < 6 {
		t.Errorf("the examples have %q only", names)
	}
	wanted, _, _ := strings.Cut(page, "\nThe level is")
	found := regexp.MustCompile("rule `([^`]*)`").FindAllStringSubmatch(wanted, -1)
	for _, m := range found {
		if !strings.Contains("\n"+strings.Join(names, "\n")+"\n", "\n"+m[1]+"\n") {
			t.Errorf("no example of the rule %q", m[1])
		}
	}
	if len(found) < 5 {
		t.Errorf("the table names %q", found)
	}
}

// TestDocumentedNarrowing: what docs/isolation.md has for jobs, and the meta of docs/nomad.md, is read.
func TestDocumentedNarrowing(t *testing.T) {
	find := func(file, begin, end, pattern string) [][]string {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, part, _ := strings.Cut(string(page), begin)
		part, _, _ = strings.Cut(part, end)
		return regexp.MustCompile(pattern).FindAllStringSubmatch(part, -1)
	}
	texts := append(find("../docs/isolation.md", "| what is left | text |\n", "\n\n", "(?m) `(.*)` \\|$"), find("../docs/nomad.md", "tested: narrowing", "}", `"allocnet.(?:in|e)gress" += "(.*?)"`)...)
	for _, text := range texts {
		if _, err := ParseEgress(text[1]); err != nil {
			t.Error(err)
		}
	}
	if len(texts) != 7 {
		t.Errorf("the pages have %q", texts)
	}
}
