// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
)

// outcomes are what a verb gave for each network of an allocation. A command gives none.
type outcomes []string

// succeeded tells whether the verb succeeded for all networks.
func (o outcomes) succeeded() bool { return !slices.ContainsFunc(o, failed) }

// difference returns the outcomes that differ. A DEL that the plugins fail for a network may succeed.
func (o outcomes) difference(verb string, got outcomes) []string {
	var lines []string
	for i, want := range o {
		if mayDiffer := verb == del && failed(want) && succeeded(got[i]); !mayDiffer && withoutText(want) != withoutText(got[i]) {
			lines = append(lines, fmt.Sprintf("-network %d: %s", i, want), fmt.Sprintf("+network %d: %s", i, got[i]))
		}
	}
	return lines
}

// outcome describes a result or an error: by its code, because texts may be better than those
// of the plugins.
func outcome(result string, err error) string {
	var coded *types.Error
	switch {
	case err == nil:
		return "ok " + result
	case errors.As(err, &coded):
		return fmt.Sprintf("error with code %d%s%v", coded.Code, textMark, err)
	}
	return fmt.Sprintf("error%s%v", textMark, err)
}

// textMark separates the code of an error from its text, which is not compared.
const textMark = " # "

func failed(outcome string) bool { return strings.Contains(outcome, textMark) }

func succeeded(outcome string) bool { return !failed(outcome) }

func withoutText(outcome string) string {
	code, _, _ := strings.Cut(outcome, textMark)
	return code
}

// TestOutcomes: codes are compared, texts are not.
func TestOutcomes(t *testing.T) {
	want := outcomes{"error with code 7 # a"}
	if d := want.difference(add, outcomes{"error with code 7 # b\nof two lines"}); d != nil {
		t.Errorf("another text is a difference: %s", d)
	}
	for _, got := range []string{"error with code 8 # a", "error # a", "ok"} {
		if want.difference(add, outcomes{got}) == nil {
			t.Errorf("%q is no difference", got)
		}
	}
}

// TestOutcomesOfDEL: a DEL that the plugins fail for a network may succeed for that, and no other.
func TestOutcomesOfDEL(t *testing.T) {
	const busy, invalid = "error with code 999 # busy", "error with code 7 # invalid"
	want := outcomes{busy, "ok", invalid}
	for _, got := range []outcomes{{"ok", "ok", invalid}, {busy, "ok", "ok"}, {"ok", "ok", "ok"}} {
		if d := want.difference(del, got); d != nil {
			t.Errorf("what the plugins fail is a difference: %s", d)
		}
		if want.difference(add, got) == nil {
			t.Errorf("an ADD that succeeds is no difference: %s", got)
		}
	}
	for _, got := range []outcomes{{busy, busy, invalid}, {"ok", busy, "ok"}, {"ok", "ok", busy}, {invalid, "ok", invalid}} {
		if want.difference(del, got) == nil {
			t.Errorf("%s is no difference", got)
		}
	}
}
