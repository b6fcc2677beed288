// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// contained runs a command as the first process of a container. It has the records and
// leases of the host, and not its pinned network namespaces.
const contained = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run/netns
[ $$ != 1 ] || mount -t proc proc /proc
exec "$@"`

func inContainer(words ...string) []string {
	return append([]string{"sh", "-c", contained, "sh"}, words...)
}

// TestAgentInContainer: an agent that does not see the host's namespaces does not tear
// down their allocations.
func TestAgentInContainer(t *testing.T) {
	for name, test := range map[string]struct {
		isolation uintptr
		config    string
		reason    string
	}{
		"with PIDs of its own":    {unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID, "", "no init system"},
		"with the host's PIDs":    {unix.CLONE_NEWNS | unix.CLONE_NEWNET, "", "process 1 in mnt:"},
		"with the host's network": {unix.CLONE_NEWNS | unix.CLONE_NEWPID, "", "no init system"},
		"with the host mounted":   {unix.CLONE_NEWNS, `cni { chroot = "/host" }`, "cni.chroot"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			if out, code := h.allocnet("attach", "running", "--primary", "web", "--publish", "8080:80"); code != 0 {
				t.Fatalf("attach: %d %s", code, out)
			}
			before := sandbox.Snapshot(t)
			h.configure(test.config)
			h.isolation = test.isolation
			h.launch(inContainer(binary, "agent")...)
			h.await("the first round is over", func() bool { return h.client.Ready(context.Background()) == nil })
			h.await("the log says "+test.reason, func() bool { return strings.Contains(h.log.String(), test.reason) })
			var refused *api.Error
			if _, err := h.client.GC(ctx); !errors.As(err, &refused) || refused.Code != api.CodeInvalidConfig {
				t.Errorf("POST /v1/gc: %v", err)
			}
			h.end(unix.SIGTERM)
			sandbox.RequireSame(t, before)
			if out, code := h.allocnet("check", "running"); code != 0 {
				t.Errorf("check: %d %s", code, out)
			}
			if out, code := h.allocnet("detach", "running"); code != 0 {
				t.Errorf("detach: %d %s", code, out)
			}
		})
	}
}

// TestCommandsInContainer: neither do the commands that remove.
func TestCommandsInContainer(t *testing.T) {
	h := newHost(t)
	if out, code := h.allocnet("attach", "running", "--primary", "web"); code != 0 {
		t.Fatalf("attach: %d %s", code, out)
	}
	for _, words := range [][]string{{"gc"}, {"gc", "--dry-run"}, {"cleanup", "running"}} {
		words := inContainer(append([]string{binary}, words...)...)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env = h.env()
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "nothing is removed from here") {
			t.Errorf("%v: %v %s", words, err, out)
		}
	}
	for _, command := range []string{"check", "detach"} {
		if out, code := h.allocnet(command, "running"); code != 0 {
			t.Errorf("%s: %d %s", command, code, out)
		}
	}
}
