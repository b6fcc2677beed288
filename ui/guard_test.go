// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"net/http"
	"strings"
	"testing"
)

// TestForeignHosts: a page that is reached under another name than that of this host is that of
// someone who has the name resolve to 127.0.0.1.
func TestForeignHosts(t *testing.T) {
	r := start(t).enter()
	port := r.server.config.Listener.Addr().String()[len("127.0.0.1"):]
	for host, status := range map[string]int{
		"127.0.0.1" + port: 200, "localhost" + port: 200, "[::1]" + port: 200, "localhost:8321": 200, "localhost": 200, "127.0.0.1": 200,
		"example.org" + port: 421, "example.org": 421, "127.0.0.1.example.org" + port: 421, "localhost.example.org": 421, "192.0.2.1" + port: 421, "127.0.0.1@example.org": 421, "0.0.0.0" + port: 421,
	} {
		for _, path := range []string{r.server.base, "/static/style.css"} {
			request, err := http.NewRequest(http.MethodGet, r.at(path), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, cookie := range r.browser.Jar.Cookies(request.URL) {
				request.AddCookie(cookie)
			}
			request.Host = host
			if got := r.do(request); got.status != status {
				t.Errorf("host %s of %s: status %d, want %d", host, path, got.status, status)
			}
		}
	}
}

// TestReadOnly: no method but GET is answered; a token is not spent by another one.
func TestReadOnly(t *testing.T) {
	r := start(t)
	token := strings.TrimPrefix(r.server.URL(), r.at(""))
	for _, path := range []string{token, "/", r.server.base, r.server.base + "allocations", r.server.base + "live", "/static/live.js"} {
		for _, method := range []string{"HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY"} {
			request, err := http.NewRequest(method, r.at(path), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.do(request); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "GET" {
				t.Errorf("%s %s: status %d, Allow %q", method, path, got.status, got.header.Get("Allow"))
			}
		}
	}
	if got := r.get(token); got.status != 200 {
		t.Errorf("the token is spent: status %d", got.status)
	}
}

// TestOtherSites: their scripts read nothing; their links lead to a page.
func TestOtherSites(t *testing.T) {
	r := start(t).enter()
	for mode, status := range map[string]int{"cors": 403, "no-cors": 403, "navigate": 200} {
		request, err := http.NewRequest(http.MethodGet, r.at(r.server.base), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Sec-Fetch-Site", "cross-site")
		request.Header.Set("Sec-Fetch-Mode", mode)
		if got := r.do(request); got.status != status {
			t.Errorf("mode %s: status %d, want %d", mode, got.status, status)
		}
	}
}

// TestHeaders: every answer allows the page its own files alone, and nothing in line.
func TestHeaders(t *testing.T) {
	r := start(t).enter()
	for _, path := range []string{"/", "/nothing", r.server.base, r.server.base + "nothing", "/static/style.css"} {
		got := r.get(path)
		csp := got.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || strings.Contains(csp, "http") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy is %q", path, csp)
		}
		for name, want := range headers {
			if value := got.header.Get(name); value != want {
				t.Errorf("%s: %s is %q, want %q", path, name, value, want)
			}
		}
		for _, inline := range []string{"<style", "style=", "<script>", "onclick", "onload", "http://", "https://"} {
			if strings.Contains(got.body, inline) {
				t.Errorf("%s has %s", path, inline)
			}
		}
	}
}
