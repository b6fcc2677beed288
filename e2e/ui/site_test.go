// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// makeSite makes the web site of the documents, and returns its directory.
func makeSite(t testing.TB) string {
	t.Helper()
	for _, pattern := range []string{"../../*.md", "../../docs/*", "../../build/tools/site"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v: make build/tools/site", pattern, len(files), err)
		}
		for _, file := range files {
			sandbox.Source(t, file)
		}
	}
	dir := t.TempDir() + "/site"
	if out, err := exec.Command(sandbox.Root()+"/build/tools/site", sandbox.Root(), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// TestSite: pages of the site fit a desktop, in light colours, and a phone, in dark ones, and axe-core finds no fault.
func TestSite(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(makeSite(t))))
	defer server.Close()
	b := open(t)
	for _, path := range []string{"/", "/docs/", "/docs/nomad.html", "/docs/symptoms.html", "/docs/security.html", "/messages.html", "/search.html?q=vlan", "/docs/message-troubleshooting-the-namespace-is-unknown.html"} {
		for scheme, s := range map[string]size{"light": desktop, "dark": phone} {
			t.Run(strings.Join([]string{path, s.name, scheme}, " "), func(t *testing.T) {
				b := b.within(t)
				b.resize(s, scheme)
				b.do(chromedp.Navigate(server.URL + path))
				b.requireFit(s)
				b.requireAccessible()
				b.shoot("site-" + strings.Trim(strings.NewReplacer("/", "-", "?q=", "-", ".html", "").Replace(path), "-") + "-" + s.name)
				b.requireQuiet()
			})
		}
	}
}

// tasks are what new users have to do, with words that they search for, and what the page has that they find.
var tasks = []struct {
	name, query, page string
	words             []string
}{
	{"a VLAN interface with a static address", "vlan static address", "docs/vlan.html", []string{"eno1.100", "staticIPs", "networks.lan100"}},
	{"a unit with two networks", "systemd service networks", "docs/service.html", []string{"allocnet@shop.service", "NetworkNamespacePath", "data0"}},
	{"containers are unreachable", "nft flush ruleset unreachable", "docs/symptoms.html", []string{"allocnet repair"}},
	{"Nomad 1.6", "nomad 1.6", "docs/two-networks.html", []string{"allocnet.networks", "job_networks"}},
	{"remove it all", "uninstall", "docs/uninstall.html", []string{"apt purge", "allocnet detach"}},
	{"a message", "the namespace is unknown", "docs/message-troubleshooting-the-namespace-is-unknown.html", []string{"1.9.4"}},
}

// TestSearch: of files, without a server, the first results of what new users search for have the page that answers it.
func TestSearch(t *testing.T) {
	dir := makeSite(t)
	b := open(t)
	for _, task := range tasks {
		t.Run(task.name, func(t *testing.T) {
			b := b.within(t)
			b.do(chromedp.Navigate("file://"+dir+"/docs/index.html"), chromedp.SendKeys(chromedp.CSS("#q"), task.query+kb.Enter), chromedp.WaitVisible(chromedp.CSS("#found a")))
			if got := get(b, chromedp.Location()); !strings.Contains(got, "search.html?q="+strings.ReplaceAll(url.PathEscape(task.query), "%20", "+")) {
				t.Errorf("the search is at %s", got)
			}
			found := script[[]string](b, `[...document.querySelectorAll("#found a")].slice(0, 3).map((a) => a.getAttribute("href"))`)
			for i, address := range found {
				if page, _, _ := strings.Cut(address, "#"); page == task.page {
					b.do(chromedp.Click(chromedp.CSS("#found li:nth-child("+string(rune('1'+i))+") a")), chromedp.WaitVisible(chromedp.CSS("main h1")))
					b.shows("main", task.words...)
					return
				}
			}
			t.Errorf("%q finds %v, want %s", task.query, found, task.page)
		})
	}
	b.do(chromedp.Navigate("file://"+dir+"/search.html?q=zzznothing"), chromedp.WaitVisible(chromedp.CSS("#count")))
	b.shows("#count", "Nothing has all of these words.")
}
