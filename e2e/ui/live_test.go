// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/ui/uitest"
)

// host runs an agent, with networks that were attached once.
type host struct {
	testing.TB
	env []string
}

func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{t, append(os.Environ(), "PATH=/run/bin:"+os.Getenv("PATH"), "ALLOCNET_CONF_DIR="+sandbox.WriteConf(t), "ALLOCNET_PLUGIN_DIR="+sandbox.PluginDir(), "ALLOCNET_STATE_DIR="+t.TempDir(), "ALLOCNET_CONFIG="+t.TempDir())}
	agent := exec.Command(binary, "agent", "--log-level", "warn")
	agent.Env, agent.Stderr = h.env, os.Stderr
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Signal(unix.SIGTERM) // Wait has the error
		if err := agent.Wait(); err != nil {
			t.Errorf("the agent: %v", err)
		}
	})
	sandbox.Eventually(t, "the agent is ready", func() bool { return client.New("").Ready(t.Context()) == nil })
	return h
}

// shell runs a script in which allocnet is this one.
func (h *host) shell(script string) {
	h.Helper()
	cmd := exec.Command("bash", "-euxc", script)
	cmd.Env = h.env
	if out, err := cmd.CombinedOutput(); err != nil {
		h.Fatalf("%v\n%s", err, out)
	}
}

// TestLive: an open page follows the host: an attach, a search and a detach of another program
// show without a reload, and what a person does on the page stays.
func TestLive(t *testing.T) {
	h := newHost(t)
	b := open(t)
	base := b.enter(run(t, api.DefaultSocket))
	b.eventually(`document.getElementById("state").textContent === "Live"`)
	script[bool](b, "window.unloaded = false")
	h.shell("allocnet attach web-1 --primary web --networks storage --publish 8080:80")
	b.shows("#overview", "web-1")
	b.do(chromedp.Click(chromedp.CSS(`a[href$="allocations/web-1"]`)), chromedp.WaitVisible(chromedp.CSS("#allocation")))
	b.shows("body", "eth0 on web", "net1 on storage", "8080 → 80/tcp", "all present", "host-local")
	b.do(chromedp.Click(chromedp.CSS("summary")), chromedp.Focus(chromedp.CSS("summary")))
	script[bool](b, "window.kept = true")
	h.shell("allocnet attach web-1 --networks peer@net7")
	b.shows("body", "net7 on peer")
	for _, so := range []string{"window.kept", `document.querySelector("details").open`, `document.activeElement.tagName === "SUMMARY"`} {
		if !script[bool](b, so) {
			t.Errorf("after an update it is not so: %s", so)
		}
	}
	b.shows("#traffic", "net7 on peer", "B/s")
	b.do(chromedp.Navigate(base + "map"))
	b.shows("#map", "web-1", "storage 10.89.", "Without a job")
	if picture := script[string](b, `fetch("map.svg").then((answer) => answer.text())`); !strings.Contains(picture, "web-1") {
		t.Errorf("the map is %s", picture)
	}
	b.do(chromedp.Navigate(base+"allocations"), chromedp.SendKeys(chromedp.CSS("#q"), "storage 8080"+kb.Enter), chromedp.WaitVisible(chromedp.CSS(".search a")))
	b.shows("#allocations", "1 of 1 allocation")
	b.do(chromedp.SendKeys(chromedp.CSS("#q"), kb.End+" none"))
	h.shell("allocnet detach web-1")
	b.shows("#allocations", "0 of 0 allocations")
	if got := script[string](b, "document.activeElement.value"); got != "storage 8080 none" {
		t.Errorf("what is typed is %q", got)
	}
	b.do(chromedp.Navigate(base + "events"))
	b.shows("#eventlog", "detached")
	b.requireQuiet()
}

// TestStopped: a page says that it is not connected when the command has ended.
func TestStopped(t *testing.T) {
	b := open(t)
	t.Run("while it runs", func(t *testing.T) {
		b := b.within(t)
		b.enter(run(t, uitest.Start(t).Socket))
		b.eventually(`document.getElementById("state").textContent === "Live"`)
		b.requireQuiet()
	})
	b.eventually(`document.getElementById("state").textContent === "Not connected: retrying"`)
}

// TestWithoutJavaScript: pages and the search work without it.
func TestWithoutJavaScript(t *testing.T) {
	agent := uitest.Start(t)
	agent.Fill(12, time.Now())
	b := open(t)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.enter(run(t, agent.Socket))
	for _, step := range []struct{ click, visible string }{
		{`nav a[href$="allocations"]`, `form[role="search"]`}, {`a.id`, "#allocation"}, {`nav a[href$="pools"]`, "#pools"}, {`nav a[href$="cluster"]`, "#cluster"}, {`nav a[href$="problems"]`, "#problems"}, {`nav a[href$="events"]`, "#eventlog"},
	} {
		b.do(chromedp.Click(chromedp.CSS(step.click)), chromedp.WaitVisible(chromedp.CSS(step.visible)))
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#q"), "failed"), chromedp.Click(chromedp.CSS("button")), chromedp.WaitVisible(chromedp.CSS(".search a")))
	if got := get(b, chromedp.Text(chromedp.CSS("#eventlog"))); !strings.Contains(got, "attach failed") || strings.Contains(got, "detached") {
		t.Errorf("the search finds %q", got)
	}
	b.requireQuiet()
}

// TestStranger: another browser, which has the path of the pages and not the cookie, sees
// nothing, and a page of another site cannot show one in a frame.
func TestStranger(t *testing.T) {
	c := run(t, uitest.Start(t).Socket)
	base := open(t).enter(c)
	stranger := open(t)
	for _, path := range []string{base, c.url} {
		stranger.do(chromedp.Navigate(path), chromedp.WaitVisible(chromedp.CSS("code")))
		stranger.forget("403")
	}
	opened, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	stranger.requireQuiet()
	stranger.do(chromedp.Navigate("http://" + strings.Replace(opened.Host, "127.0.0.1", "localhost", 1) + opened.Path))
	if got := get(stranger, chromedp.Text(chromedp.CSS("main"))); !strings.Contains(got, "opens with a URL") {
		t.Errorf("the page of localhost is %q", got)
	}
}

// TestDocument: the commands of docs/ui.md, and of the help, serve a page.
func TestDocument(t *testing.T) {
	h := newHost(t)
	document, err := os.ReadFile("../../docs/ui.md")
	if err != nil {
		t.Fatal(err)
	}
	help, err := exec.Command(binary, "ui", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ *(allocnet ui.*)$`).FindAllStringSubmatch(string(document)+string(help), -1)
	if len(found) < 4 {
		t.Fatalf("only %d examples", len(found))
	}
	for _, m := range found {
		if m[1] != "allocnet ui [flags]" {
			h.shell(`timeout -s INT --preserve-status 2 ` + m[1] + ` | grep -E '^(\{"url":")?http://127.0.0.1:[0-9]+/\?token=' `)
		}
	}
}

// BenchmarkBrowser is the list of 1,000 allocations, until the browser has drawn it.
func BenchmarkBrowser(b *testing.B) {
	agent := uitest.Start(b)
	agent.Set(api.PathAllocations, uitest.Allocations(1000, time.Now()))
	tab := open(b)
	base := tab.enter(run(b, agent.Socket))
	for b.Loop() {
		tab.do(chromedp.Navigate(base + "allocations"))
		if rows := script[int](tab, `document.body.offsetHeight && document.querySelectorAll("tbody tr").length`); rows != 100 {
			b.Fatalf("%d rows", rows)
		}
		b.StopTimer()
		tab.do(chromedp.Navigate("about:blank")) // the end of the page before is not part of it
		b.StartTimer()
	}
}
