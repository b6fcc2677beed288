// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
)

// startDocker starts Docker's daemon, which keeps its containers when it ends, and returns what ends it.
func (h *host) startDocker() (stop func()) {
	h.Helper()
	log, err := os.OpenFile(filepath.Join(h.dir, "docker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		h.Fatal(err)
	}
	cmd := exec.Command("dockerd", "--live-restore", "--data-root", "/run/docker-root", "--pidfile", filepath.Join(h.dir, "docker.pid"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		if text, _ := os.ReadFile(log.Name()); h.Failed() {
			h.Logf("Docker's log, in part:\n%s", text[max(0, len(text)-3000):])
		}
	})
	sandbox.Eventually(h, "Docker answers", func() bool { return exec.Command("docker", "info").Run() == nil })
	return func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait() // it was signalled
		_ = log.Close()
	}
}

// runContainer runs a container that serves a published port, of an image of busybox alone.
func (h *host) runContainer() {
	h.Helper()
	root := h.TempDir()
	shell(h, "mkdir "+root+"/bin && cp /bin/busybox "+root+"/bin && tar -C "+root+" -c . | docker import - busybox:1")
	h.run("docker run --detach --name served --publish 8090:80 busybox:1 /bin/busybox httpd -f -p 80")
}

// rulesOfDocker are those that Docker has made, sorted: it changes their order itself.
func (h *host) rulesOfDocker() string {
	h.Helper()
	lines := strings.Split(h.run("iptables-save"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return !strings.HasPrefix(line, "-A") || !strings.Contains(line, "DOCKER") && !strings.Contains(line, "docker0")
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestLongDocker: Docker's daemon with its rules and its policy DROP starts again beside allocations, also
// when the rules of both are gone. Neither harms the other, and there is no fight.
func TestLongDocker(t *testing.T) {
	h := newAgentHost(t, "iptables")
	h.run("sysctl -qw net.ipv4.ip_forward=0") // Docker sets its policy when it enables forwarding
	stop := h.startDocker()
	t.Cleanup(func() {
		h.run("docker rm --force served")
		stop()
		shell(t, "ip link del docker0; nft flush ruleset")
	})
	h.runContainer()
	h.run("iptables -I DOCKER-USER -o web0 -j ACCEPT") // what else lets packets to published ports through
	if rules := h.run("iptables -S FORWARD"); !strings.Contains(rules, "-P FORWARD DROP") {
		t.Fatalf("Docker has not set its policy:\n%s", rules)
	}
	socket := h.startAgent("two")
	container := []*stream.Stream{stream.Start(t, stream.Way{Name: "to Docker's container", From: outside, To: hostAddress + ":8090"}, stream.Step)}
	all := slices.Concat(h.streams, container)
	stream.AwaitFlow(t, all)
	var talks []*stream.Talk
	for _, w := range append(slices.Clone(h.ways), h.apart) {
		talks = append(talks, stream.StartTalk(t, w))
	}
	before := h.rulesOfDocker()
	for _, damage := range []string{"true", "iptables -t nat -F", "iptables -D FORWARD -j CNI-FORWARD -m comment --comment 'CNI firewall plugin rules'"} {
		began := time.Now()
		shell(t, damage)
		stop()
		stop = h.startDocker()
		stream.AwaitFlow(t, all)
		t.Logf("%s, and Docker again: new connections after %s, to its container after %s; silence of established ones: %s", damage,
			stream.LongestGap(h.streams, began).Round(time.Millisecond), stream.LongestGap(container, began).Round(time.Millisecond), stream.Silences(talks))
		if after := h.rulesOfDocker(); after != before {
			t.Errorf("Docker's rules are not as they were (-before +after):\n%s", difference(before, after))
		}
	}
	for _, talk := range talks {
		stream.RequireKept(t, talk)
	}
	if found := missing(h.repair(hook.RepairReport)); found != "" {
		t.Errorf("missing: %s", found)
	}
	status, err := client.New(socket).Repair(context.Background())
	if err != nil || len(status.Waiting) > 0 {
		t.Errorf("%+v, %v: the agent waits, as in a fight", status, err)
	}
}
