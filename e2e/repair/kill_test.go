// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/state"
)

// slowRestore is an iptables-restore that waits for a file before it changes the host, in whose
// namespace it says so. That of another namespace, where rules are only translated, does not.
const slowRestore = `#!/bin/sh
if [ "$(readlink /proc/self/ns/net)" = "NAMESPACE" ]; then
	: >DIR/begun
	until [ -e DIR/continue ]; do sleep 0.05; done
fi
exec PROGRAM "$@"
`

// TestLongKilledRepair: an iptables-restore that outlives a killed repair keeps the allocation locked
// until it has ended, so it adds no rule after the allocation is gone.
func TestLongKilledRepair(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	h.attach("one", 8080)
	dir := t.TempDir()
	program, err := exec.LookPath("iptables-restore")
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("NAMESPACE", namespace, "DIR", dir, "PROGRAM", program).Replace(slowRestore)
	if err := os.WriteFile(filepath.Join(dir, "iptables-restore"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	shell(t, "nft flush ruleset")
	cmd := exec.Command(binary, "repair")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ALLOCNET_STATE_DIR="+h.state(), "ALLOCNET_PLUGIN_DIR="+sandbox.PluginDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sandbox.Eventually(t, "iptables-restore runs", func() bool {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	store, err := state.Open(h.state())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := store.TryLock("one")
	if !errors.Is(err, state.ErrLocked) {
		t.Errorf("while iptables-restore runs: %v, want ErrLocked", err)
	}
	if err == nil {
		lock.Unlock()
	}
	detached := make(chan error)
	go func() { detached <- h.engine.Teardown(context.Background(), "one") }()
	sandbox.WriteFile(t, filepath.Join(dir, "continue"), "")
	if err := <-detached; err != nil {
		t.Error(err)
	}
}
