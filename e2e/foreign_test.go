// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// foreignFiles are files of a machine with Nomad, allocnet and other programs, foreignVariables those of
// its environment.
var (
	foreignFiles = []string{
		"/dev/shm/libpod_lock", "/etc/netns/foreign/resolv.conf", "/etc/netns/warm/resolv.conf", "/var/lib/allocnet/allocations/foreign/lock",
		"/var/lib/cni/networks/web/10.88.0.2", "/run/netns/foreign",
	}
	foreignVariables = []string{
		"NOMAD_ADDR=http://192.0.2.1:4646", "ALLOCNET_CONF_DIR=/nowhere", "ALLOCNET_STATE_DIR=/nowhere", "ALLOCNET_JSON=true", "CNI_PATH=/nowhere",
		"DOCKER_HOST=tcp://192.0.2.1:2375",
	}
)

// TestLongForeignFiles: the tests do not depend on what the machine has installed and configured. This sandbox
// is the machine of another one.
func TestLongForeignFiles(t *testing.T) {
	before := sandbox.Snapshot(t)
	for _, path := range foreignFiles {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		sandbox.WriteFile(t, path, "nameserver 192.0.2.1\n")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^Test(DefaultRoute|SlowADD|HungCHECK|NothingForeign)$", "-test.v")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "ALLOCNET_SANDBOX=") }), foreignVariables...)
	out, err := cmd.CombinedOutput()
	if count := strings.Count(string(out), "\n--- PASS"); err != nil || count < 4 {
		t.Errorf("%v, %d tests pass, want 4\n%s", err, count, out)
	}
	if left, err := filepath.Glob(os.TempDir() + "/allocnet-sandbox-*"); err != nil || left != nil {
		t.Errorf("%v are left (%v)", left, err)
	}
	for _, path := range foreignFiles {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
		for dir := filepath.Dir(path); os.Remove(dir) == nil; { // until one is not empty
			dir = filepath.Dir(dir)
		}
	}
	sandbox.RequireSame(t, before)
}

// TestNothingForeign: a sandbox has nothing of the machine's.
func TestNothingForeign(t *testing.T) {
	for _, path := range foreignFiles {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
	for _, variable := range foreignVariables {
		if name, value, _ := strings.Cut(variable, "="); os.Getenv(name) == value {
			t.Errorf("%s is set", variable)
		}
	}
}
