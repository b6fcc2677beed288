// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"regexp"
	"strings"
	"testing"
)

// term is a word that CNI, Nomad, netlink or nftables have another word for.
type term struct {
	// words is a regular expression of the words, in lower case.
	words string
	// use is the standard word.
	use string
	// in are the places where the words are not used.
	in place
	// whole limits the term to identifiers that consist of the words.
	whole bool
	// under are the folders that the term is limited to. None: all.
	under []string

	anywhere, exact *regexp.Regexp
}

// match returns the offsets of the term in the passage.
func (t *term) match(p passage) [][]int {
	if t.in&p.in == 0 || !underAny(p.path, t.under) {
		return nil
	}
	return t.pattern(p.in&(identifier|declaration) != 0 && t.whole).FindAllStringIndex(p.text, -1)
}

// pattern compiles the term once for each of its two forms.
func (t *term) pattern(whole bool) *regexp.Regexp {
	begin, end, compiled := `(?i)\b`, `\b`, &t.anywhere
	if whole {
		begin, end, compiled = `^`, `$`, &t.exact
	}
	if *compiled == nil {
		*compiled = regexp.MustCompile(begin + `(?:` + strings.ReplaceAll(t.words, " ", `\s+`) + `)` + end)
	}
	return *compiled
}

func underAny(path string, folders []string) bool {
	for _, folder := range folders {
		if strings.HasPrefix(path, folder+"/") || path == folder {
			return true
		}
	}
	return len(folders) == 0
}

// exception is a place where a term is the right word.
type exception struct {
	path, words, reason string
}

// terms are the words that are not used.
var terms = []term{
	// Texts that users read, and comments.
	{words: "wish|wishes|wished", use: "job networks, requested", in: everywhere},
	{words: "mend|mends|mended|mending", use: "fix", in: everywhere},
	{words: "tries", use: "attempts, retries", in: everywhere},
	{words: "v1/delegate", use: "/v1/allocations/{id}/attachments", in: texts},
	{words: "as set up", use: "ok", in: literal | document},
	{words: "what stands", use: "existing attachments, recorded allocations", in: texts},
	{words: "way out|ways out", use: "default route", in: everywhere},
	{words: "way in|ways in", use: "integration", in: texts},
	{words: "by hand", use: "manually", in: texts},
	{words: "entry|entries", use: "plugin configuration", in: document, under: []string{"docs", "README.md"}},
	{words: "conf directory|conf directories", use: "CNI configuration directory", in: texts},
	{words: "sign of life|signs of life", use: "liveness evidence", in: everywhere},
	{words: "at work", use: "in flight", in: everywhere},
	{words: "carried out by the agent", use: "delegated to the agent", in: texts},
	{words: "takes down what ended|what ended", use: "garbage-collects", in: texts},
	{words: "cut off|cut-off", use: "interrupted", in: everywhere},
	{words: "what it costs", use: "performance", in: texts},
	{words: "laboratory|laboratories", use: "test sandbox", in: everywhere},
	{words: "nobody|somebody|whoever", use: "the caller, another runtime, another process", in: everywhere},

	// Identifiers of the engine and its records.
	{words: "start over", use: "reset", in: identifier},
	{words: "make ready", use: "prepare", in: identifier},
	{words: "swept boot", use: "CleanedBoot", in: identifier},
	{words: "sweep|tidy", use: "recover", in: identifier, under: []string{"hook", "state"}},
	{words: "let go", use: "closeHold", in: everywhere},
	{words: "keep part", use: "recordPartialResult", in: identifier},
	{words: "given up", use: "abortError", in: identifier},
	{words: "masters inside", use: "masterInterfaces", in: identifier},
	{words: "displaced", use: "PreviousRoutes", in: identifier},
	{words: "follow bridges", use: "refreshBridgeMAC", in: identifier},
	{words: "follow routes", use: "updateGateways", in: identifier},
	{words: "postpone", use: "markPending", in: identifier},
	{words: "lock attaching", use: "RLockHost", in: identifier},
	{words: "lock collecting", use: "LockHost", in: identifier},
	{words: "quiesce", use: "WaitForPlugins", in: identifier},
	{words: "earlier|known|standing|settle|recall|going", use: "reuseOrReset, hasRecord, existing, rollBackInterrupted, loadFromCache, abort", in: identifier, whole: true, under: []string{"hook", "state"}},
	{words: "After|Mark|Put|made|observe", use: "DependsOn, Write, WriteDurable, complete, inspect", in: declaration, whole: true, under: []string{"hook", "state"}},

	// Identifiers elsewhere.
	{words: "line|patience", use: "limiter, slotTimeout", in: identifier, whole: true, under: []string{"agent/line.go", "agent/limiter.go"}},
	{words: "settled|verdict|judge|nobody else|look inside", use: "GraceCutoff, Decision, classify, NoneLive, ScanNamespaces", in: identifier, under: []string{"cleanup"}},
	{words: "said|alone|passed|harmless|mine", use: "seen, single, forwarded, ignorable, TeardownOwned", in: identifier, whole: true},
}

// exceptions are the places where a term is the right word.
var exceptions = []exception{
	{path: "docs/systemd.md", words: "User=nobody", reason: "the user of Debian with this name"},
	{path: "e2e/systemd/systemd_test.go", words: "User=nobody", reason: "the user of Debian with this name"},
}

// TestTerms holds identifiers, comments, texts and documents to the standard words.
func TestTerms(t *testing.T) {
	used := map[exception]bool{}
	for _, p := range passages(t, "../..") {
		for i := range terms {
			for _, at := range terms[i].match(p) {
				if e := excepted(p, at, exceptions); e != nil {
					used[*e] = true
				} else {
					t.Errorf("%s:%d: %s: %q: use %s", p.path, p.line+strings.Count(p.text[:at[0]], "\n"), p.in, around(p.text, at, 20), terms[i].use)
				}
			}
		}
	}
	for _, e := range exceptions {
		if !used[e] {
			t.Errorf("the exception %q of %s is not needed any more: remove it", e.words, e.path)
		}
	}
}

// excepted returns the exception whose words include the match.
func excepted(p passage, at []int, exceptions []exception) *exception {
	for i, e := range exceptions {
		if e.path == p.path && strings.Contains(around(p.text, at, len(e.words)), e.words) {
			return &exceptions[i]
		}
	}
	return nil
}

// around returns the match with n bytes before and after it, in one line.
func around(text string, at []int, n int) string {
	return strings.Join(strings.Fields(text[max(0, at[0]-n):min(len(text), at[1]+n)]), " ")
}

// TestTermsAreFound: each place of a file is looked at, and nothing that only
// contains the letters of a term is one.
func TestTermsAreFound(t *testing.T) {
	code := "// Package p runs what stands\n// and repairs by\n// hand.\npackage p\n\nimport _ \"tries\"\n\n" +
		"type wishType struct {\n\tsignOfLife, entries int `json:\"nobody\"`\n}\n\n" +
		"func (cutOff *wishType) LookAt(atWork string) (standing bool) {\n" +
		"\tfor mended := range 3 {\n\t\tparseWishes := func() { _ = `laboratory` }\n\t\tparseWishes()\n\t\t_ = mended\n\t}\n" +
		"tries:\n\tfor {\n\t\tbreak tries\n\t}\n\treturn\n}\n\nconst wayOut, recommended = \"sweeping entries, mended\", 1\n"
	tests := []struct {
		path, text string
		want       []string
	}{
		{"hook/wish.go", code, []string{"wish", "what stands", "by hand", "wish", "sign of life", "nobody", "cut off", "at work", "standing", "mended", "wishes", "laboratory", "tries", "way out", "mended"}},
		{"docs/a.md", "An entry of\nthe conf\ndirectory. Entries-of: cut-off, Whoever; recommended, handy.\n", []string{"entry", "conf directory", "entries", "cut-off", "whoever"}},
		{"GNUmakefile", "all: ## by all ways in\n# what\n# ended\n", []string{"ways in", "what ended"}},
		{"cleanup/a.go", "package cleanup\n\nvar graceCutoff, lineOfVerdict, line int\n", []string{"verdict"}},
		{"agent/limiter.go", "package agent\n\nvar graceCutoff, lineOfVerdict, line int\n", []string{"line"}},
		{"state/b.go", "package state\n\ntype t struct{ After, after int }\n\nfunc (t) made() { made, Mark := 1, 2; _, _ = made, Mark }\n", []string{"after", "made"}},
		{"state/b_test.go", "package state\n\nfunc made() {}\n", nil},
		{"state/a.go", "package state\n\n// A Standing entry, made after.\nvar standingBy, standing int\n", []string{"standing"}},
	}
	for _, test := range tests {
		var got []string
		for _, p := range parse(t, test.path, []byte(test.text)) {
			for i := range terms {
				for _, at := range terms[i].match(p) {
					got = append(got, strings.ToLower(around(p.text, at, 0)))
				}
			}
		}
		requireSame(t, test.path, got, test.want)
	}
}

// TestExceptions: an exception is for its words in its file.
func TestExceptions(t *testing.T) {
	list := []exception{{path: "docs/a.md", words: "log entry", reason: "the journal has entries"}}
	for _, test := range []struct {
		path, text string
		want       bool
	}{
		{"docs/a.md", "each log\nentry of it", true},
		{"docs/a.md", "an entry of a log", false},
		{"docs/b.md", "each log entry", false},
	} {
		p := passage{path: test.path, text: test.text, in: document}
		at := regexp.MustCompile("entry").FindStringIndex(test.text)
		if got := excepted(p, at, list) != nil; got != test.want {
			t.Errorf("%s: %q: excepted is %v, want %v", test.path, test.text, got, test.want)
		}
	}
}
