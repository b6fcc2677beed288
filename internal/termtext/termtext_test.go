// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package termtext_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/allocnet/allocnet/internal/termtext"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"plain":                 "plain",
		"é 日本":                  "é 日本",
		"one\ntwo\n":            "one; two",
		"\x1b[31mred":           `\x1b[31mred`,
		"a\u202eb\u200bc\u0007": `a\u202eb\u200bc\a`,
		"\xff":                  "\uFFFD",
	} {
		if got := termtext.Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "é": 1, "e\u0301": 1, "日本": 4, "😀": 2, "│": 1} {
		if got := termtext.Width(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab~"}, {"日本語", 6, "日本語"}, {"日本語", 5, "日本~"}, {"日本語", 4, "日~"}, {"abc", 1, "~"}, {"abc", 0, "~"}} {
		if got := termtext.Cut(test.text, test.columns, "~"); got != test.want {
			t.Errorf("%q in %d columns: %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}

func TestFill(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    []string
	}{
		{"", 5, nil},
		{"a bc def", 0, []string{"a  bc  def"}},
		{"a bc def", 5, []string{"a  bc", "def"}},
		{"a bc def", 4, []string{"a", "bc", "def"}},
		{"abcdefg h", 3, []string{"abc", "def", "g", "h"}},
		{"日本語", 4, []string{"日本", "語"}},
		{"日本語", 1, []string{"日", "本", "語"}},
	} {
		if got := termtext.Fill(strings.Fields(test.text), "  ", test.columns); !slices.Equal(got, test.want) {
			t.Errorf("%q in %d columns: %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}

// FuzzPrintable: a terminal acts on nothing of a text, and shows it in one line.
func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"web-1", "a\nb", "\x1b]0;title\x07", "\u202e\u2066", "\xff\xfe", "日本語 e\u0301", `\u202e`} {
		f.Add(seed, 7)
	}
	f.Fuzz(func(t *testing.T, text string, columns int) {
		s := termtext.Printable(text)
		if !utf8.ValidString(s) || strings.ContainsFunc(s, termtext.Unprintable) {
			t.Errorf("%q is printed as %q", text, s)
		}
		if again := termtext.Printable(s); again != s {
			t.Errorf("%q is escaped again as %q", s, again)
		}
		columns = 2 + max(0, columns)%100
		if cut := termtext.Cut(s, columns, "…"); termtext.Width(cut) > columns {
			t.Errorf("%q has %d columns, want at most %d", cut, termtext.Width(cut), columns)
		}
		for _, line := range termtext.Fill([]string{s}, " ", columns) {
			if termtext.Width(line) > columns {
				t.Errorf("the line %q has %d columns, want at most %d", line, termtext.Width(line), columns)
			}
		}
		if joined := strings.Join(termtext.Fill([]string{s}, " ", columns), ""); joined != s {
			t.Errorf("%q was broken into %q", s, joined)
		}
	})
}
