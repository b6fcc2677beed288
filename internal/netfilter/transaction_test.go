// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// TestRestore: each table with its lines; none where there is nothing to do, and nothing where a line cannot be read.
func TestRestore(t *testing.T) {
	var lines, others, all netfilter.Transaction
	lines.Empty("OWN")
	lines.Line("-A", "OWN", "-m", "comment", "--comment", `a "b"`, "-j", "ACCEPT")
	others.Delete(`-A FORWARD -m comment --comment "a \"b\"" -j OWN`)
	all.Table("raw")
	all.Table("filter", &lines, &others)
	all.Table("nat", &others)
	const want = `*filter
:OWN - [0:0]
-A OWN -m comment --comment "a \"b\"" -j ACCEPT
-D FORWARD -m comment --comment "a \"b\"" -j OWN
COMMIT
*nat
-D FORWARD -m comment --comment "a \"b\"" -j OWN
COMMIT
`
	failed := errors.New("line 2 failed")
	var ran []string
	run := func(_ context.Context, stdin, name string, args ...string) (string, error) {
		ran = append(ran, strings.Join(append([]string{name}, args...), " "), stdin)
		return "", failed
	}
	if err := all.Restore(t.Context(), run, "ip6tables-nft"); !errors.Is(err, failed) {
		t.Errorf("%v, want the error of the program", err)
	}
	if diff := cmp.Diff([]string{"ip6tables-nft-restore --noflush --wait=30", want}, ran); diff != "" {
		t.Error(diff)
	}
	if err := new(netfilter.Transaction).Restore(t.Context(), run, "iptables"); err != nil || len(ran) > 2 {
		t.Errorf("nothing to do: %v, and %q ran", err, ran)
	}
	lines.Line("-A", "OWN", "--comment", "two\nlines")
	all.Table("filter", &lines)
	if err := all.Restore(t.Context(), run, "iptables"); err == nil || len(ran) > 2 || !strings.Contains(err.Error(), `"two\nlines"`) {
		t.Errorf("a line that cannot be read: %v, and %q ran", err, ran)
	}
}

// restoreWords splits a line as add_param_to_argv of iptables 1.8 does.
func restoreWords(line string) []string {
	var words []string
	var word strings.Builder
	var open, escaped bool
	for _, char := range []byte(line + "\n") {
		switch {
		case open && escaped:
			word.WriteByte(char)
			escaped = false
			continue
		case open && char == '\\':
			escaped = true
			continue
		case open && char != '"':
			word.WriteByte(char)
			continue
		case !open && char == '"':
			open = true
			continue
		}
		if open = false; char != '"' && char != ' ' && char != '\t' && char != '\n' {
			word.WriteByte(char)
			continue
		}
		if char == '"' || word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	return words
}

// FuzzQuote: iptables-restore, and Split, read the arguments that were written.
func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"", "a b", `a"b`, `\`, `"`, `'`, "#", "-j", "a\tb", "\n", "\x00", `a\"`, "é"} {
		f.Add(seed, "next")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		var transaction netfilter.Transaction
		transaction.Line("-A", "CHAIN", first, second)
		line := ""
		run := func(_ context.Context, stdin, _ string, _ ...string) (string, error) { line = stdin; return "", nil }
		if err := transaction.Restore(t.Context(), run, "iptables"); err != nil {
			if !strings.ContainsAny(first+second, netfilter.Unreadable) {
				t.Fatalf("refused %q and %q", first, second)
			}
			return
		}
		line, rest, _ := strings.Cut(line, "\n")
		want := []string{"-A", "CHAIN", first, second}
		if rest != "" || !slices.Equal(restoreWords(line), want) {
			t.Errorf("%q is read as %q, want %q", line, restoreWords(line), want)
		}
		if words, err := netfilter.Split(line); err != nil || !slices.Equal(words, want) {
			t.Errorf("%q is split into %q, %v, want %q", line, words, err, want)
		}
	})
}
