// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestTokenOnce: a token opens one session, and a newer URL ends it.
func TestTokenOnce(t *testing.T) {
	r := start(t)
	path := func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		return u.RequestURI()
	}
	old, token := path(r.server.URL()), path(r.server.URL())
	for _, test := range []struct {
		name, path string
		status     int
	}{
		{"no session", r.server.base, 403}, {"no token", "/", 403}, {"an empty token", "/?token=", 403}, {"the token of an earlier URL", old, 403},
		{"the beginning of the token", token[:len(token)-1], 403}, {"another path", "/overview", 404},
		{"the token", token, 200}, {"a session", r.server.base, 200}, {"the token again", token, 403}, {"still the session", r.server.base, 200},
	} {
		got := r.get(test.path)
		if got.status != test.status {
			t.Errorf("%s: status %d, want %d: %s", test.name, got.status, test.status, got.body)
		}
		if got.status != 200 && strings.Contains(got.body, strings.Trim(r.server.base, "/")) {
			t.Errorf("%s: the answer has the path of the pages", test.name)
		}
		cookie := got.header.Get("Set-Cookie")
		if (test.name == "the token") != (cookie != "") {
			t.Errorf("%s: cookie %q", test.name, cookie)
		}
		if cookie != "" && (!strings.Contains(cookie, "Path="+r.server.base) || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict")) {
			t.Errorf("the cookie is %q", cookie)
		}
	}
	r.browser.Jar = nil
	if got := r.page(""); got.status != 403 {
		t.Errorf("another browser: status %d", got.status)
	}
}

// TestIdle: a session ends when it was not used for its time, and not before.
func TestIdle(t *testing.T) {
	var s sessions
	now := time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)
	session, ok := s.spend(s.newToken(), now)
	if !ok {
		t.Fatal("the token is not valid")
	}
	request := &http.Request{Header: http.Header{"Cookie": {cookieName + "=" + session}}}
	for _, test := range []struct {
		after time.Duration
		want  bool
	}{{idle - time.Second, true}, {idle - time.Second, true}, {idle, false}, {0, false}} {
		now = now.Add(test.after)
		if got := s.use(request, now); got != test.want {
			t.Errorf("%s after the last request: %v, want %v", test.after, got, test.want)
		}
	}
	for _, cookie := range []string{"", cookieName + "=", cookieName + "=x"} {
		if s.use(&http.Request{Header: http.Header{"Cookie": {cookie}}}, now) {
			t.Errorf("cookie %q is a session", cookie)
		}
	}
}

// TestEnds: Serve ends with its context, also while a page is live, and without an error.
func TestEnds(t *testing.T) {
	r := start(t).enter()
	response, err := r.browser.Get(r.at(r.server.base + "live"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // only read
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if response, err := r.browser.Get(r.at("/")); err == nil {
		_ = response.Body.Close() // not read
		t.Error("it still answers")
	}
}
