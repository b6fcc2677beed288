// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
)

// TestMap: the picture has its own style sheet and nothing else, whatever is in it.
func TestMap(t *testing.T) {
	r := start(t).enter()
	r.agent.Fill(3, time.Now())
	got := r.page("map.svg")
	policy := got.header.Get("Content-Security-Policy")
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(got.body, "<svg") || !strings.Contains(policy, "; style-src 'sha256-") || strings.Contains(policy, "unsafe") {
		t.Errorf("status %d, %v", got.status, got.header)
	}
	for svg, want := range map[string]string{
		"<svg><style>a</style></svg>": "default-src 'none'; frame-ancestors 'none'; style-src 'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='",
		"<svg/>":                      "default-src 'none'; frame-ancestors 'none'",
	} {
		if got := imagePolicy(svg); got != want {
			t.Errorf("the policy of %s is %q, want %q", svg, got, want)
		}
	}
	r.agent.Set(api.PathMap, &api.Error{CNIVersion: "1.1.0", Code: 999, Msg: "disk full", Status: 500})
	if got := r.page("map.svg"); got.status != http.StatusBadGateway || !strings.Contains(got.body, "disk full") {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	r.requireText("problems", "drift unknown", "disk full")
	r.browser.Jar = nil
	if got := r.page("map.svg"); got.status != http.StatusForbidden {
		t.Errorf("without a session: status %d", got.status)
	}
}

// TestMapOfMany: the picture of 1,000 allocations, of two attachments each, is sent compressed to
// those who ask for that, and is the same for others.
func TestMapOfMany(t *testing.T) {
	r := start(t).enter()
	r.agent.Fill(1000, time.Now())
	with := func(encoding string) answer {
		request, err := http.NewRequest(http.MethodGet, r.at(r.server.base+"map.svg"), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", encoding)
		return r.do(request)
	}
	plain, small := with("identity"), with("gzip, br")
	if plain.header.Get("Content-Encoding") != "" || small.header.Get("Content-Encoding") != "gzip" || len(small.body) > len(plain.body)/5 {
		t.Errorf("%d bytes are sent as %d", len(plain.body), len(small.body))
	}
	t.Logf("%d bytes are sent as %d", len(plain.body), len(small.body))
	if again := r.page("map.svg"); again.body != plain.body { // Go's client decompresses it
		t.Error("the compressed picture is another one")
	}
}
