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

// TestFromHost: the host reaches what has fromHost false by published ports, and by rules that name it and their ports.
func TestFromHost(t *testing.T) {
	h := newHost(t)
	file := filepath.Join(h.conf, "strict.conflist")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sandbox.WriteFile(t, file, strings.Replace(string(text), `"isolation": "strict"`, `"isolation": "strict", "fromHost": false`, 1))
	outside := place{name: "the host", netns: own}
	one := h.serve(h.attach("one", "strict", "-p", "8080:80"))
	published := []probe{{outside, "10.79.0.1:8080", true}}
	h.require(all(outside, one, false), published)
	const rule = "allow \"checks\" {\n  from { host = true }\n  to { network = \"strict\" }\n  ports = [\"80/tcp\"]\n}\n"
	h.rules(rule)
	h.must("repair")
	two := h.serve(h.attach("two", "strict"))
	h.require(all(outside, one, true), all(outside, two, true), all(one, two, false), published)
	h.must("policy", "test", "host", "one:80")
	h.rules(strings.Replace(rule, "80/tcp", "81/tcp", 1))
	h.must("repair")
	h.require(all(outside, one, false), all(outside, two, false), published)
	if _, err := h.run("policy", "test", "host", "one:80"); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("policy test: %v, want exit code 4", err)
	}
	sandbox.WriteFile(t, file, string(text))
	h.must("repair")
	h.require(all(outside, one, true), all(outside, two, true))
}
