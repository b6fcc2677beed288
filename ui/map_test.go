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
