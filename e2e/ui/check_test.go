// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// axe is the program that looks for what keeps people from using a page.
const axe = "../../build/axe/axe.min.js"

// within returns the browser as part of another test.
func (b *browser) within(t testing.TB) *browser {
	t.Helper()
	part := &browser{TB: t, ctx: b.ctx, began: true}
	part.watch()
	return part
}

// forget awaits a message with a text, which may come after the page, and drops it.
func (b *browser) forget(text string) {
	b.Helper()
	sandbox.Eventually(b, "the browser logs "+text, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		before := len(b.logged)
		b.logged = slices.DeleteFunc(b.logged, func(line string) bool { return strings.Contains(line, text) })
		return len(b.logged) < before
	})
}

// requireFit fails if the page is wider than the window.
func (b *browser) requireFit(s size) {
	b.Helper()
	if width := script[int64](b, "document.documentElement.scrollWidth"); width > s.width {
		b.Errorf("the page is %d wide, want at most %d: %s", width, s.width, script[string](b, `[...document.querySelectorAll("body *")]
			.filter((e) => e.getBoundingClientRect().right > innerWidth && !e.matches(".hidden, .skip"))
			.map((e) => e.tagName + "." + e.className + " " + e.textContent.slice(0, 40)).slice(0, 5).join("\n")`))
	}
}

// requireAccessible fails if axe-core finds a fault.
func (b *browser) requireAccessible() {
	b.Helper()
	program, err := os.ReadFile(axe)
	if err != nil {
		b.Fatalf("%v: make build/axe/axe.min.js", err)
	}
	get(b, chromedp.Evaluate[chromedp.Void](string(program)))
	faults := script[[]string](b, `axe.run().then((found) => found.violations.map((v) =>
		v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary).join("\n")))`)
	if len(faults) > 0 {
		b.Errorf("axe-core finds:\n%s", strings.Join(faults, "\n"))
	}
}
