// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"strings"
	"testing"
)

// TestTruncatedFileWithRules: a file with rules that a full disk or a power cut
// truncated after its name keeps the name. A later file of the same directory does not
// offer the network without the rules.
func TestTruncatedFileWithRules(t *testing.T) {
	const whole = `{"cniVersion": "1.0.0", "name": "storage", "plugins": [{"type": "bridge"}], "allocnet": {"namespaces": ["infra"]}}`
	const later = `{"cniVersion": "1.0.0", "name": "storage", "plugins": [{"type": "bridge"}]}`
	named := strings.Index(whole, `"plugins"`)
	for length := len(whole) - 1; length >= named; length-- {
		c := load(t, map[string]string{"10-storage.conflist": whole[:length], "20-storage.conflist": later})
		if n, err := c.Lookup("storage"); err == nil {
			t.Fatalf("after %q the network is that of %s, which has no rules", whole[:length], n.Path)
		}
	}
}

// TestBrokenFileHidesNoOtherNetwork: a broken file hides no network of another name in
// its directory, also if its text has that name for something else.
func TestBrokenFileHidesNoOtherNetwork(t *testing.T) {
	for name, text := range map[string]string{
		"the name comes after the error": `{"cniVersion": "1.0.0", "plugins": [{"type": "bridge", "bridge": "web",}], "name": "lan"}`,
		"no name":                        `{"cniVersion": "1.0.0", "plugins": [{"type": "bridge", "bridge": "web"}]}`,
		"keys that begin with name":      `{"cniVersion": "1.0.0", "plugins": [{"type": "bridge", "dns": {"nameservers": []}}], "allocnet": {"namespaces": []},}`,
	} {
		c := load(t, map[string]string{
			"10-lan.conflist":     text,
			"20-web.conflist":     `{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "bridge"}]}`,
			"30-bridge.conflist":  `{"cniVersion": "1.0.0", "name": "bridge", "plugins": [{"type": "bridge"}]}`,
			"40-servers.conflist": `{"cniVersion": "1.0.0", "name": "servers", "plugins": [{"type": "bridge"}]}`,
			"50-spaces.conflist":  `{"cniVersion": "1.0.0", "name": "spaces", "plugins": [{"type": "bridge"}]}`,
		})
		for _, network := range []string{"web", "bridge", "servers", "spaces"} {
			if _, err := c.Lookup(network); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
