// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocs runs the examples of docs/systemd.md.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/systemd.md")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	m.copy("../../dist/conf/40-mgmt.conflist", "/opt/cni/config/40-mgmt.conflist")
	m.must("allocnet", "attach", "warm", "--primary", "mgmt") // its bridge stays
	m.must("allocnet", "detach", "warm")
	before := m.warm()
	files := regexp.MustCompile("(?s)`(\\S+)`:\n```\\w+\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	commands := regexp.MustCompile("(?s)<!-- tested -->\n```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(files) != 2 || len(commands) != 2 {
		t.Fatalf("%d files and %d blocks of commands, want 2 of each", len(files), len(commands))
	}
	for _, file := range files {
		m.write(file[1], file[2])
	}
	for _, block := range commands {
		m.must("sh", "-euxc", block[1])
	}
	m.must("systemctl", "stop", "web.service")
	m.requireSame(before)
	_, help, _ := strings.Cut(m.must("allocnet", "systemd-run", "--help"), "Examples:\n")
	examples, _, found := strings.Cut(help, "\nFlags:")
	if !found {
		t.Fatalf("the help has no examples:\n%s", help)
	}
	m.must("sh", "-euxc", strings.ReplaceAll(examples, "python3 -m http.server 80", "true"))
	m.requireSame(before)
}
