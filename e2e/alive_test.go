// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// plain writes a network that leaves nothing on the host but libcni's cached result. Its
// fake plugin waits for a file, if one is named.
func (h *host) plain(mark, await string) {
	h.t.Helper()
	first := ""
	if await != "" {
		first = `{"type": "fakecni", "fake": {"verbs": {"ADD": {"mark": "` + mark + `", "await": "` + await + `"}}}},`
	}
	sandbox.WriteFile(h.t, h.conf+"/91-plain.conflist", `{"cniVersion": "1.0.0", "name": "plain", "plugins": [`+first+`{"type": "bridge", "bridge": "storage0"}]}`)
}

// TestCleanupOfTheLiving: an allocation whose recorded namespace exists is not dead, even
// if nothing on the host belongs to it.
func TestCleanupOfTheLiving(t *testing.T) {
	h := newHost(t)
	h.plain("", "")
	h.attach("u1", "--networks", "plain")
	h.loseCache("u1")
	h.refuse(2, []string{"not dead"}, "cleanup", "u1")
	h.must("status", "u1")
	h.must("detach", "u1")
}

// TestCleanupDuringSetup: an allocation that is being set up is not dead.
func TestCleanupDuringSetup(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.plain(dir+"/begun", dir+"/go")
	attach := h.command("attach", "u1", "--primary=", "--networks", "plain")
	if err := attach.Start(); err != nil {
		t.Fatal(err)
	}
	sandbox.Eventually(t, "ADD has begun", func() bool { _, err := os.Stat(dir + "/begun"); return err == nil })
	cleanup := h.command("cleanup", "u1")
	if err := cleanup.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cleanup.Wait(); close(ended) }()
	select { // it has refused, or waits for the set-up
	case <-ended:
	case <-time.After(time.Second):
	}
	sandbox.WriteFile(t, dir+"/go", "")
	if err := attach.Wait(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if code := cleanup.ProcessState.ExitCode(); code != 2 {
		t.Errorf("cleanup of an allocation that is being set up: exit code %d, want 2", code)
	}
	h.must("status", "u1")
	h.must("detach", "u1")
}
