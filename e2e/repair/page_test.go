// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
)

// TestSymptomsPage: after a flush of all rules the commands of docs/symptoms.md find what is missing, and make it again.
func TestSymptomsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/symptoms.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- tested: flush -->\n```sh\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/symptoms.md has no commands")
	}
	h := newHost(t, hook.ExecutorAuto, "iptables")
	h.attach("web-1", 8080)
	t.Cleanup(func() { h.detach("web-1") })
	before := h.picture("web-1")
	shell(t, "nft flush ruleset")
	cmd := exec.Command("bash", "-euxo", "pipefail", "-c", string(block[1]))
	cmd.Env = append(os.Environ(), append(h.environment(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "allocnet repair web-1") {
		t.Errorf("doctor does not say how to repair:\n%s", out)
	}
	h.requireSame(before, "web-1")
}
