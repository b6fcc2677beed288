// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// copyPlugin replaces the link to a plugin by a copy, which a test can damage.
func (h *host) copyPlugin(name string) string {
	h.Helper()
	path := filepath.Join(h.plugins, name)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		h.Fatal(err)
	}
	sandbox.Run(h, "rm", path)
	sandbox.Run(h, "cp", real, path)
	return path
}

// TestNotExecutable: a plugin that cannot be executed is an error before ADD. The objects
// of a plugin that can no longer be executed are removed by forced cleanup.
func TestNotExecutable(t *testing.T) {
	t.Setenv("ALLOCNET_EXECUTOR", "plugins")
	h := newHost(t)
	path := h.copyPlugin("portmap")
	mode := func(mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	mode(0o644)
	h.refuse(`plugin "portmap" is not executable`, attach...)
	h.requireSame()
	mode(0o755)
	stand(h)
	mode(0o644)
	h.must(detach...)
}

// TestLongBusy: a plugin whose file is open for writing is executed again, because it is being
// installed.
func TestLongBusy(t *testing.T) {
	t.Setenv("ALLOCNET_EXECUTOR", "plugins")
	h := newHost(t)
	path := h.copyPlugin("portmap")
	busy := func() *os.File {
		t.Helper()
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	writer := busy()
	h.refuse("text file busy", attach...)
	h.requireSame()

	cmd := h.command(attach...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for output := bufio.NewScanner(stderr); output.Scan(); { // until it has ended
		lines = append(lines, output.Text())
		if strings.Contains(output.Text(), "trying again") { // in the pause after the first attempt
			_ = writer.Close() // after the second one it is closed
		}
	}
	if err := cmd.Wait(); err != nil || !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "trying again") }) {
		t.Errorf("the second attempt: %v: %s", err, lines)
	}

	writer = busy()
	h.must(detach...)
	sandbox.RequireSame(t, h.before)
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLongSleepsForEver: a DEL that does not end is killed at its deadline. The attachment is
// pending, and DEL can be repeated.
func TestLongSleepsForEver(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("asleep", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Await: dir + "/awake"}}})
	h.must("attach", "k1", "--primary", "web", "--networks", "asleep,storage")
	for _, args := range [][]string{detach, collect} {
		h.refuse("did not answer DEL within 3s", append([]string{"--call-timeout", "3s"}, args...)...)
		sandbox.RequireNoPlugins(h)
	}
	if out := h.must("status", "k1"); !strings.Contains(out, "pending") || strings.Contains(out, "storage") {
		t.Errorf("status shows\n%s", out)
	}
	sandbox.WriteFile(t, dir+"/awake", "")
	h.must(detach...)
}

// TestLongRulesAreLocked: another process has the lock of iptables-legacy. Plugins wait for it,
// until their deadline.
func TestLongRulesAreLocked(t *testing.T) {
	t.Cleanup(func() { sandbox.FlushLegacy(t) })
	h := newHost(t)
	h.path = sandbox.PathOfIPTables(t, "legacy") // which has the lock
	stand(h)                                     // makes the shared chains
	h.must(detach...)
	h.remember()

	for _, args := range [][]string{attach, detach} {
		release := h.lockRules()
		cmd := h.command(args...)
		r := h.launch(cmd)
		h.await("iptables waits for the lock", waiting)
		release()
		if <-r.done; !cmd.ProcessState.Success() {
			t.Errorf("%v ended with %v", args, cmd.ProcessState)
		}
	}
	h.requireSame()

	release := h.lockRules()
	h.refuse("within 1s", append([]string{"--call-timeout", "1s"}, attach...)...)
	release()
	h.must(detach...)
	h.requireSame()
}

const rulesLock = "/run/xtables.lock"

// lockRules takes the lock of iptables-legacy.
func (h *host) lockRules() (release func()) {
	h.Helper()
	file, err := os.OpenFile(rulesLock, os.O_CREATE|os.O_RDONLY, 0o600)
	if err == nil {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		h.Fatal(err)
	}
	return func() {
		if err := file.Close(); err != nil {
			h.Error(err)
		}
	}
}

// waiting tells whether another process has the lock's file open.
func waiting() bool {
	lock, err := os.Stat(rulesLock)
	if err != nil {
		return false
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		file, err := os.Stat(link)
		if err == nil && os.SameFile(file, lock) && !strings.HasPrefix(link, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			return true
		}
	}
	return false
}
