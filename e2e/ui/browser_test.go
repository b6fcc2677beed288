// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// deadline bounds what a test waits for.
const deadline = time.Minute

// browser is a tab of a Chromium, whose errors fail the test.
type browser struct {
	testing.TB
	ctx context.Context
	// began is whether an action was done.
	began bool

	mu sync.Mutex
	// logged are messages of the console, and requests of other hosts.
	logged []string
}

// open starts a Chromium.
func open(t testing.TB) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Fatalf("%v: install it with: apt-get install chromium-headless-shell", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(stop)
	b := &browser{TB: t, ctx: ctx}
	b.do(chromedp.Navigate("about:blank"))
	b.watch()
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	return b
}

// watch listens to the tab.
func (b *browser) watch() {
	b.Helper()
	if err := chromedp.Listen(b.ctx, b.listen); err != nil {
		b.Fatal(err)
	}
}

// listen keeps what a page must not cause.
func (b *browser) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		text = fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text + " " + e.ExceptionDetails.URL
	case *runtime.EventConsoleAPICalled:
		text = fmt.Sprintf("console.%s", e.Type)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, "http://127.0.0.1:") {
			text = "request of " + e.Request.URL
		}
	}
	if text != "" {
		b.mu.Lock()
		b.logged = append(b.logged, text)
		b.mu.Unlock()
	}
}

// requireQuiet fails if the browser has logged something.
func (b *browser) requireQuiet() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.logged) > 0 {
		b.Errorf("the browser logs:\n%s", strings.Join(b.logged, "\n"))
	}
	b.logged = nil
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, stop := b.limited()
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// limited bounds what follows the first action, with which the browser would end.
func (b *browser) limited() (context.Context, context.CancelFunc) {
	if !b.began {
		b.began = true
		return b.ctx, func() {}
	}
	return context.WithTimeout(b.ctx, deadline)
}

// get returns the value of an action.
func get[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx, stop := b.limited()
	defer stop()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// call sends a command of the DevTools protocol.
func call[P, R any](b *browser, command cdp.Command[P, R], parameters P) {
	b.Helper()
	ctx, stop := b.limited()
	defer stop()
	if _, err := chromedp.Call(ctx, command, parameters); err != nil {
		b.Fatal(err)
	}
}

// size is that of a window.
type size struct {
	name          string
	width, height int64
	mobile        bool
}

var (
	desktop = size{"desktop", 1280, 900, false}
	phone   = size{"phone", 390, 844, true}
)

// resize gives the window a size, and the pages their colours.
func (b *browser) resize(s size, scheme string) {
	b.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: s.width, Height: s.height, DeviceScaleFactor: 1, Mobile: s.mobile})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// script returns what an expression of JavaScript is, or resolves to.
func script[T any](b *browser, expression string) T {
	b.Helper()
	return get(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// eventually waits until an expression is true.
func (b *browser) eventually(expression string) {
	b.Helper()
	if !script[bool](b, fmt.Sprintf(`new Promise((resolve) => {
		const end = Date.now() + %d;
		const look = () => (%s) ? resolve(true) : Date.now() > end ? resolve(false) : setTimeout(look, 20);
		look();
	})`, (deadline/2).Milliseconds(), expression)) {
		b.Fatalf("never true: %s\n%s", expression, script[string](b, "document.body.innerText"))
	}
}

// shows waits until an element has all texts.
func (b *browser) shows(selector string, texts ...string) {
	b.Helper()
	for _, text := range texts {
		b.eventually(fmt.Sprintf("document.querySelector(%q).textContent.replace(/\\s+/g, \" \").includes(%q)", selector, text))
	}
}

// screenshots is the directory that gets pictures of the pages. Empty: none are taken.
var screenshots = sandbox.Variable("ALLOCNET_SCREENSHOTS")

// shoot takes a picture of the whole page.
func (b *browser) shoot(name string) {
	b.Helper()
	if screenshots == "" {
		return
	}
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		b.Fatal(err)
	}
	picture := get(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(screenshots, name+".png"), picture, 0o644); err != nil {
		b.Fatal(err)
	}
}
