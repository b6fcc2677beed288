// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/state"
)

// smallDisk puts the state directory on a file system of its own.
func (h *host) smallDisk() {
	h.Helper()
	if err := unix.Mount("tmpfs", h.state, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		if err := unix.Unmount(h.state, 0); err != nil {
			h.Error(err)
		}
	})
	for _, args := range [][]string{{"attach", "first", "--primary", "storage"}, {"detach", "first"}} {
		h.must(args...)
	}
}

// fill leaves no byte of the state directory's file system.
func (h *host) fill() {
	h.Helper()
	file, err := os.Create(h.state + "/filler")
	if err != nil {
		h.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		h.Fatal(err)
	}
}

func (h *host) free() {
	h.Helper()
	if err := os.Remove(h.state + "/filler"); err != nil {
		h.Fatal(err)
	}
}

// TestFullDisk: on a full disk a set-up fails before ADD, and a teardown succeeds.
func TestFullDisk(t *testing.T) {
	h := newHost(t)
	h.smallDisk()
	h.fill()
	h.refuse("no space left on device", attach...)
	sandbox.RequireSame(t, h.before)
	h.free()

	log := t.TempDir() + "/calls" // forced cleanup does not know this plugin
	h.fake("fake", fakecni.Script{Log: log})
	h.must("attach", "k1", "--primary", "web", "--networks", "storage,fake")
	h.fill()
	h.must(detach...)
	if calls := sandbox.Run(t, "cat", log); calls != "ADD net2\nDEL net2\n" {
		t.Errorf("calls of the plugin:\n%s", calls)
	}
	sandbox.RequireSame(t, h.before)
	h.free()
	h.requireSame()

	stand(h)
	h.fill()
	h.must("detach", "k1", "--interface", "net1")
	h.refuse("no space left on device", extend...)
	h.free()
	if n := h.requireWhole(h.must("status", "--json")); n != 1 {
		t.Errorf("%d allocations, want the one that stood", n)
	}
	h.must("check", "k1")
	h.must(detach...)
}

// TestDiskFillsUp: the disk fills up while plugins run. Room for the next lines of the
// record was reserved, so the set-up succeeds, and so does the teardown.
func TestDiskFillsUp(t *testing.T) {
	h := newHost(t)
	h.smallDisk()
	dir := t.TempDir()
	h.fake("slow", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Mark: dir + "/begun", Await: dir + "/go"}}})
	cmd := h.command("attach", "k1", "--primary", "web", "--networks", "storage,slow")
	ended := make(chan outcome, 1)
	go func() { ended <- h.run(cmd) }()
	h.await("the plugin runs", func() bool { return present(dir + "/begun") })
	h.fill()
	sandbox.WriteFile(t, dir+"/go", "")
	if o := <-ended; o.code != 0 {
		t.Errorf("exit code %d:\n%s", o.code, o.text)
	}
	if n := h.requireWhole(h.must("status", "--json")); n != 1 {
		t.Errorf("%d allocations", n)
	}
	h.must("check", "k1")
	h.must(detach...)
	sandbox.RequireSame(t, h.before)
	h.free()
}

// TestReadOnly: with a read-only state directory no plugin runs, and recorded allocations
// are shown.
func TestReadOnly(t *testing.T) {
	h := newHost(t)
	h.smallDisk()
	stand(h)
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", h.state, "", unix.MS_REMOUNT|flags, "size=256k,mode=0700"); err != nil {
			t.Fatal(err)
		}
	}
	standing := sandbox.Snapshot(t)
	remount(unix.MS_RDONLY)
	for _, args := range [][]string{{"attach", "k2", "--primary", "web"}, extend, detach, collect} {
		h.refuse("read-only file system", args...)
		sandbox.RequireSame(t, standing)
	}
	if n := h.requireWhole(h.must("status", "--json")); n != 1 {
		t.Errorf("%d allocations are shown", n)
	}
	remount(0)
	h.must("check", "k1")
	h.must(detach...)
}

// TestOwnedByAnother: a user without access gets an error that says so. Records name
// programs to execute, so root refuses a state directory of another user.
func TestOwnedByAnother(t *testing.T) {
	h := newHost(t)
	stand(h)
	sandbox.Run(t, "chmod", "755", filepath.Dir(h.state), h.state)
	unprivileged := func(args ...string) outcome {
		cmd := exec.Command("setpriv", append([]string{"--reuid", "65534", "--clear-groups", binary}, args...)...)
		cmd.Env = h.env()
		return h.run(cmd)
	}
	h.requireRefused(unprivileged("status", "k1"), "permission denied")
	for _, args := range [][]string{extend, detach, collect} {
		h.requireRefused(unprivileged(args...), "run as root")
	}
	h.must("check", "k1")
	sandbox.Run(t, "chown", "-R", "65534:65534", h.state)
	h.refuse("65534", detach...)
	sandbox.Run(t, "chown", "-R", "0:0", h.state)
	h.must(extend...)
	h.must(detach...)
}

// TestLockOfTheDead: gc leaves an allocation that another process has locked. The
// kernel releases the lock of a killed process, and the lock file that it leaves locks
// nothing.
func TestLockOfTheDead(t *testing.T) {
	h := newHost(t)
	stand(h)
	path := h.state + "/locks/k1"
	holder := exec.Command("flock", "--no-fork", path, "sleep", "infinity")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	h.await("it has the lock", func() bool {
		return exec.Command("flock", "--nonblock", path, "true").Run() != nil
	})
	h.must(collect...)
	h.must("status", "k1")
	cmd := h.command(detach...)
	r := h.launch(cmd)
	h.await("the command waits", func() bool { return opened(cmd.Process.Pid, path) })
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // killed
	if <-r.done; !cmd.ProcessState.Success() {
		t.Errorf("detach ended with %v", cmd.ProcessState)
	}
}

// opened reports whether a process has a file open.
func opened(pid int, path string) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if target, _ := os.Readlink(link); target == path {
			return true
		}
	}
	return false
}

// TestClockJumpsBack: an allocation with a record from the future is torn down like any
// other, also by a GC.
func TestClockJumpsBack(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{
		"DEL": {Code: 7, Msg: "cannot", FailTimes: 1, Counter: dir + "/counter"},
	}})
	h.must("attach", "k1", "--primary", "fake", "--networks", "storage")
	h.refuse("cannot", detach...)
	h.fromTheFuture("k1")
	second := []string{"attach", "k2", "--primary", "web", "--networks", "storage"}
	h.must(second...)
	h.await("what was pending is tried again before the clock is where it was", func() bool { return h.allocnet("status", "k1").code != 0 })
	h.fromTheFuture("k2")
	h.must(second...)
	h.must("check", "k2")
	for _, id := range ids[:2] {
		h.must("detach", id)
	}
}

// fromTheFuture moves a record by an hour.
func (h *host) fromTheFuture(id string) {
	h.Helper()
	store, err := state.Open(h.state)
	if err != nil {
		h.Fatal(err)
	}
	lock, err := store.Lock(context.Background(), id)
	if err != nil {
		h.Fatal(err)
	}
	defer lock.Unlock()
	record, err := lock.Load()
	if err != nil {
		h.Fatal(err)
	}
	record.Allocation.Created = record.Allocation.Created.Add(time.Hour)
	for i := range record.Attachments {
		record.Attachments[i].Created = record.Attachments[i].Created.Add(time.Hour)
		record.Attachments[i].Updated = record.Attachments[i].Updated.Add(time.Hour)
	}
	if err := lock.Begin(record.Allocation, record.Attachments); err != nil {
		h.Fatal(err)
	}
}
