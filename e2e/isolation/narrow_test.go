// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestNarrowed: a job leaves less of its traffic than its network has, also between neighbours on one bridge, for published ports and where rules
// allow all. The host makes it again after a flush. Its own host reaches it.
func TestNarrowed(t *testing.T) {
	h := newHost(t)
	h.refuse(`rule "narrow" in`, "attach", "--primary", "open", "--ingress", "81/tcp", "none")
	file := filepath.Join(h.conf, "open.conflist")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sandbox.WriteFile(t, file, strings.Replace(string(text), `"name": "open",`, `"name": "open", "allocnet": {"narrow": true},`, 1))
	h.refuse(`ingress "81": "81": want a prefix`, "attach", "--primary", "open", "--ingress", "81", "none")
	outside, plain := place{name: "the host", netns: own}, h.serve(h.attach("plain", "open"))
	h.serve(h.attach("pair", "pair", "-p", "8082:80"))
	in := h.serve(h.attach("in", "open", "--ingress", "81/tcp", "-p", "8080:80"))
	out := h.serve(h.attach("out", "open", "--egress", "10.77.0.0/24 fd00:77::/64 80/tcp", "-p", "8081:80"))
	require := func() {
		t.Helper()
		h.require(all(plain, in, false), all(in, plain, true), all(outside, in, true), all(outside, out, true), all(plain, out, true), all(out, plain, true), all(out, in, false),
			[]probe{{plain, "10.77.0.1:8080", false}, {plain, "10.77.0.1:8081", true}, {out, "10.77.0.1:8082", false}})
	}
	require()
	h.must("check", "in")
	sandbox.Run(t, "nft", "delete", "table", "inet", "allocnet-isolation")
	h.must("repair")
	h.rules("allow \"everything\" {\n  from { cidrs = [\"0.0.0.0/0\", \"::/0\"] }\n  to { cidrs = [\"0.0.0.0/0\", \"::/0\"] }\n}\n")
	h.must("repair")
	require()
	if shown := h.must("policy", "show"); !strings.Contains(shown, "none, narrowed") {
		t.Errorf("policy show: %s", shown)
	}
	if status := h.must("status", "in"); !strings.Contains(status, "packets denied: ") {
		t.Errorf("status: %s", status)
	}
	if _, err := h.run("policy", "test", "plain", "in:80"); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("policy test: %v, want exit code 4", err)
	}
}
