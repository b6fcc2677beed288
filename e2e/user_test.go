// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// unprivileged runs allocnet without root.
func (h *host) unprivileged(args ...string) outcome {
	h.t.Helper()
	cmd := h.command(args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code has the outcome
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// TestWithoutRoot: commands show what the modes of files allow. Others say that they need
// root, and change nothing.
func TestWithoutRoot(t *testing.T) {
	h := newHost(t)
	plugins := t.TempDir() // the checkout may be where only root looks, as below /root
	sandbox.Run(t, "cp", "-rL", sandbox.PluginDir()+"/.", plugins)
	t.Setenv("ALLOCNET_TEST_CNI", plugins)
	for _, dir := range []string{h.conf, h.state, h.plugins, plugins} {
		for _, path := range []string{dir, filepath.Dir(dir)} {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	sandbox.Run(t, "chmod", "-R", "a+rX", h.conf)
	h.must("attach", "web-1", "--primary", "web")
	defer h.must("detach", "web-1")
	requireRoot := func(args ...string) {
		t.Helper()
		if o := h.unprivileged(args...); o.code != 2 || !strings.Contains(o.stderr, "run as root") || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("allocnet %q: exit code %d\n%s", args, o.code, o.stderr)
		}
	}
	for _, args := range [][]string{
		{"attach", "web-2", "--primary", "web"}, {"detach", "web-1"}, {"check", "web-1"}, {"gc"}, {"cleanup", "web-1"},
		{"run", "--primary", "web", "--", "true"}, {"systemd-run", "--primary", "web", "--", "true"}, {"status"}, {"status", "web-1"},
		{"map"}, {"events"}, {"repair"}, {"cluster", "ping"},
	} {
		requireRoot(args...)
	}
	if o := h.unprivileged("networks", "-q"); !strings.Contains(o.stdout, "storage\n") || strings.Contains(o.stderr, "root") {
		t.Errorf("networks: exit code %d, %s\n%s", o.code, o.stdout, o.stderr)
	}
	hidden := filepath.Join(h.state, "ipam", "pools") // as all of the state directory is, if it is not a test's
	if err := os.MkdirAll(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(hidden))
	if o := h.unprivileged("doctor"); !strings.Contains(o.stdout, "not examined without root") || strings.Contains(o.stdout, "ermission denied") {
		t.Errorf("doctor: exit code %d, %s\n%s", o.code, o.stdout, o.stderr)
	}
	sandbox.Run(t, "chmod", "-R", "a+rX", h.state)
	if o := h.unprivileged("status", "web"); o.code != 0 || !strings.Contains(o.stdout, "web-1") {
		t.Errorf("status of a readable record: exit code %d, %s\n%s", o.code, o.stdout, o.stderr)
	}
	sandbox.Run(t, "chmod", "0600", h.state+"/allocations/web-1/journal")
	requireRoot("status") // the record is unknown, and not damaged
}
