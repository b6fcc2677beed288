// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestSwappedPath: the path of a namespace leads to a stranger's while a plugin's DEL runs. The next
// plugin removes the interface from the namespace that was meant.
func TestSwappedPath(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("slow", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Mark: dir + "/begun", Await: dir + "/go"}}})
	for _, name := range []string{"mine", "stranger"} {
		sandbox.Run(t, "ip", "netns", "add", name)
	}
	h.attach("stranger", "--netns", "/run/netns/stranger", "--primary", "web")
	h.attach("mine", "--netns", "/run/netns/mine", "--primary", "slow")
	sandbox.Run(t, "sh", "-c", "touch /run/netns/kept && mount --bind /run/netns/mine /run/netns/kept")
	detach := h.command("detach", "mine")
	if err := detach.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, dir+"/begun")
	sandbox.Run(t, "sh", "-c", "umount /run/netns/mine && mount --bind /run/netns/stranger /run/netns/mine")
	sandbox.WriteFile(t, dir+"/go", "")
	if err := detach.Wait(); err != nil {
		t.Error(err)
	}
	if out := sandbox.Run(t, "ip", "-n", "kept", "-o", "link"); strings.Contains(out, "eth0") {
		t.Errorf("its interface is left:\n%s", out)
	}
	h.must("check", "stranger")
	h.must("detach", "stranger")
	for _, name := range []string{"mine", "stranger", "kept"} {
		sandbox.Run(t, "ip", "netns", "del", name)
	}
}

// TestKeptNamespace: a task keeps a namespace that has lost its path. It loses its interfaces, whose addresses
// others may get.
func TestKeptNamespace(t *testing.T) {
	h := newHost(t)
	h.attach("kept", "--primary", "web", "--networks", "vlan")
	task := exec.Command("ip", "netns", "exec", "kept", "sh", "-c", "read _; ip -o link")
	in, err := task.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	task.Stdout = &out
	if err := task.Start(); err != nil {
		t.Fatal(err)
	}
	sandbox.Eventually(t, "the task is in the namespace", func() bool { return sandbox.Run(t, "ip", "netns", "pids", "kept") != "" })
	sandbox.Run(t, "ip", "netns", "del", "kept")
	h.must("detach", "kept")
	_ = in.Close() // it reads the end
	if err := task.Wait(); err != nil {
		t.Error(err)
	}
	if strings.Contains(out.String(), "eth0") || strings.Contains(out.String(), "net1") {
		t.Errorf("the task has still\n%s", out.String())
	}
}

// TestMovedAway: a task has moved its macvlan interface to a namespace of its own, as a container in it. DEL removes it there, before
// another allocation gets its address.
func TestMovedAway(t *testing.T) {
	h := newHost(t)
	sandbox.Run(t, "ip", "link", "add", "moved0", "up", "type", "bridge")
	defer sandbox.Run(t, "ip", "link", "delete", "moved0")
	sandbox.WriteFile(t, h.conf+"/60-lan.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "lan", "plugins": [{"type": "macvlan", "master": "moved0",
		"ipam": {"type": "host-local", "dataDir": %q, "subnet": "10.97.0.0/24"}}]}`, t.TempDir()))
	h.attach("c1", "--networks", "lan@lan0")
	sandbox.Run(t, "ip", "netns", "add", "inner")
	defer sandbox.Run(t, "ip", "netns", "del", "inner")
	sandbox.Run(t, "ip", "-n", "c1", "link", "set", "lan0", "netns", "inner", "name", "inner0")
	sandbox.Run(t, "ip", "-n", "inner", "address", "add", "10.97.0.2/24", "dev", "inner0")
	h.must("detach", "c1")
	if out := sandbox.Run(t, "ip", "-n", "inner", "-o", "link"); strings.Contains(out, "inner0") {
		t.Errorf("it is left:\n%s", out)
	}
}
