// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestExec: the command is in the networks of the allocation, with its name servers, and its exit code is that of allocnet.
func TestExec(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.attach("exec-1", "--primary", "web", "--networks", "storage")
	defer h.must("detach", "exec-1")
	if out := h.must("exec", "exec-1", "--", "ip", "-brief", "addr"); !strings.Contains(out, "eth0") || !strings.Contains(out, "10.89.") {
		t.Errorf("interfaces: %s", out)
	}
	if out := h.must("exec", "exec-1", "--", "cat", "/etc/resolv.conf"); !strings.Contains(out, "Written by allocnet for network namespace exec-1") {
		t.Errorf("resolv.conf: %s", out)
	}
	for code, command := range map[int]string{7: "exit 7", 128 + int(syscall.SIGTERM): "kill -TERM $$", 128 + int(syscall.SIGUSR1): "kill -USR1 $PPID; exec sleep 60"} {
		if o := h.allocnet("exec", "exec-1", "--", "sh", "-c", command); o.code != code {
			t.Errorf("%s: exit code %d, want %d: %s", command, o.code, code, o.stderr)
		}
	}
	h.refuse(127, []string{"is not found"}, "exec", "exec-1", "--", "no-such-program")
	h.refuse(3, []string{"none"}, "exec", "none", "--", "true")
	h.refuse(2, []string{"want the ID of an allocation and a command"}, "exec", "exec-1")
}

// TestCapture: what an allocation sends is in the file, of one interface or of all, each with its name.
func TestCapture(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.attach("capture-1", "--primary", "web", "--networks", "storage")
	defer h.must("detach", "capture-1")
	for _, args := range [][]string{{"eth0"}, nil} {
		cmd := h.command(append(append([]string{"capture", "capture-1"}, args...), "--count", "2")...)
		var file, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &file, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		var err error
		sandbox.Eventually(t, "two packets are captured", func() bool {
			h.allocnet("exec", "capture-1", "--", "bash", "-c", "echo x > /dev/udp/10.88.0.1/9")
			select {
			case err = <-ended:
				return true
			default:
				return false
			}
		})
		if err != nil || !strings.Contains(stderr.String(), "2 packets, 0 lost") {
			t.Errorf("%v: %v: %s", args, err, stderr.String())
		}
		if !bytes.HasPrefix(file.Bytes(), []byte("\x0a\x0d\x0d\x0a")) || !bytes.Contains(file.Bytes(), []byte("eth0")) {
			t.Errorf("%v: %q", args, file.Bytes())
		}
	}
	h.must("capture", "capture-1", "--seconds", "1")
	h.refuse(2, []string{`no interface "net9"`, "eth0"}, "capture", "capture-1", "net9")
	h.refuse(2, []string{"--count"}, "capture", "capture-1", "--count", "-1")
}

type tested struct{ Interface, Probe, Target, Outcome, Detail, Next string }

// test returns the rows of allocnet test, by probe and interface.
func (h *host) test(code int, id string) map[string]tested {
	h.t.Helper()
	o := h.allocnet("test", id, "--json")
	var rows []tested
	if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil || o.code != code {
		h.t.Fatalf("exit code %d, want %d; %v: %s%s", o.code, code, err, o.stdout, o.stderr)
	}
	byProbe := map[string]tested{}
	for _, r := range rows {
		byProbe[r.Probe+" "+r.Interface] = r
	}
	return byProbe
}

// TestTest: what works is told, and what has been broken is found, each with the next thing to look at.
func TestTest(t *testing.T) {
	h := newHost(t)
	h.useDist()
	one := h.attach("test-1", "--primary", "web", "--networks", "storage", "--publish", "18080:80/tcp")
	two := h.attach("test-2", "--networks", "storage")
	defer h.must("detach", "test-1")
	defer h.must("detach", "test-2")
	require := func(code int, want map[string]string) map[string]tested {
		t.Helper()
		rows := h.test(code, "test-1")
		for probe, outcome := range want {
			if rows[probe].Outcome != outcome {
				t.Errorf("%s is %+v, want %s", probe, rows[probe], outcome)
			}
		}
		return rows
	}
	rows := require(1, map[string]string{"gateway eth0": "ok", "mtu eth0": "ok", "neighbour eth0": "skipped", "gateway net1": "skipped", "neighbour net1": "ok", "mtu net1": "ok", "port eth0": "failed"})
	if p := rows["port eth0"]; !strings.Contains(p.Detail, "nothing listens on") || !strings.Contains(p.Next, "ss -ltn") {
		t.Errorf("without a listener: %+v", p)
	}
	serve(t, one.Netns, ":80", "test-1")
	require(0, map[string]string{"port eth0": "ok"})
	sandbox.Run(t, "ip", "-n", "test-2", "link", "set", two.Attachments[0].Interface, "mtu", "1300")
	require(1, map[string]string{"neighbour net1": "ok", "mtu net1": "failed"})
	sandbox.Run(t, "ip", "-n", "test-2", "link", "set", two.Attachments[0].Interface, "down")
	rows = require(1, map[string]string{"neighbour net1": "failed", "gateway eth0": "ok"})
	if p := rows["neighbour net1"]; !strings.Contains(p.Detail, "no reply") || !strings.Contains(p.Next, "allocnet capture test-2 net1") {
		t.Errorf("a neighbour that is down: %+v", p)
	}
	if text := h.allocnet("test", "test-1").stdout; !strings.Contains(text, "NEXT") {
		t.Errorf("the table: %s", text)
	}
	sandbox.Run(t, "ip", "-n", "test-2", "link", "delete", two.Attachments[0].Interface)
	if rows := h.test(1, "test-2"); rows["attachment net1"].Outcome != "failed" || !strings.Contains(rows["attachment net1"].Detail, "interface gone") {
		t.Errorf("an interface that is gone: %+v", rows)
	}
	if out, err := exec.Command("ip", "-n", "test-1", "link").CombinedOutput(); err != nil || !strings.Contains(string(out), "eth0") {
		t.Errorf("%v: %s", err, out)
	}
}
