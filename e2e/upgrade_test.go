// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestUpgrade: allocations that are recorded in a released format can be torn down.
func TestUpgrade(t *testing.T) {
	h := newHost(t)
	if err := os.Symlink(sandbox.PluginDir(), "/run/plugins"); err != nil { // the plugin directory in the records
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove("/run/plugins") })
	journals, err := filepath.Glob("../state/testdata/format-*.journal")
	if err != nil || len(journals) == 0 {
		t.Fatalf("%v, %v", journals, err)
	}
	for _, journal := range journals {
		if err := os.MkdirAll(filepath.Dir(h.journal("web-1")), 0o700); err != nil {
			t.Fatal(err)
		}
		sandbox.WriteFile(t, h.journal("web-1"), read(t, journal))
		if out := h.must("status", "web-1"); !strings.Contains(out, "10.88.0.2/16") || !strings.Contains(out, "8080->80/tcp") {
			t.Errorf("%s: status:\n%s", journal, out)
		}
		h.must("detach", "web-1")
		h.refuse(3, []string{"not set up here"}, "status", "web-1")
	}
}

// TestDowngrade: a program refuses the record of a newer one, and changes nothing.
func TestDowngrade(t *testing.T) {
	h := newHost(t)
	h.must("attach", "web-1", "--primary", "web")
	attached := sandbox.Snapshot(t)
	own := read(t, h.journal("web-1"))
	sandbox.WriteFile(t, h.journal("web-1"), ofNewerProgram(t, own))
	const says = "has format version 99, this program knows 3: use the newer program"
	for _, args := range [][]string{{"status", "web-1"}, {"check", "web-1"}, {"detach", "web-1"}, {"attach", "web-1", "--primary", "web"}} {
		h.refuse(1, []string{says}, args...)
	}
	if o := h.allocnet("status"); !strings.Contains(o.stdout+o.stderr, says) {
		t.Errorf("the list does not say it: %+v", o)
	}
	h.allocnet("gc")
	sandbox.RequireSame(t, attached)
	sandbox.WriteFile(t, h.journal("web-1"), own)
	h.must("detach", "web-1")
}

func (h *host) journal(id string) string {
	return filepath.Join(h.state, "allocations", id, "journal")
}

// ofNewerProgram gives each line of a journal a later version.
func ofNewerProgram(t *testing.T, journal string) string {
	t.Helper()
	var lines strings.Builder
	for text := range strings.Lines(journal) {
		var line struct {
			Record json.RawMessage `json:"record"`
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "99\n%s", line.Record))
		_, _ = fmt.Fprintf(&lines, `{"version":99,"sha256":"%x","record":%s}`+"\n", sum, line.Record)
	}
	return lines.String()
}
