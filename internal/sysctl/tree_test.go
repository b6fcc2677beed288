// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sysctl"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainIfRoot(m.Run))
}

const key = "net/ipv4/conf/lo/rp_filter"

func require(t *testing.T, s *sysctl.Tree, key, want string) {
	t.Helper()
	if got, err := s.Get(key); got != want || err != nil {
		t.Errorf("%s: %q, %v, want %q", key, got, err, want)
	}
}

func set(t *testing.T, s *sysctl.Tree, key, value string) {
	t.Helper()
	if err := s.Set(key, value); err != nil {
		t.Error(err)
	}
}

func TestRootTreeIsProcSys(t *testing.T) {
	roottest.Require(t)
	s := &sysctl.Tree{}
	for _, value := range []string{"2", "0"} {
		set(t, s, key, value)
		require(t, s, key, value)
		data, err := os.ReadFile("/proc/sys/" + key)
		if string(data) != value+"\n" || err != nil {
			t.Errorf("/proc/sys has %q, %v, want %q", data, err, value)
		}
	}
}

func TestRootTreeIsOfTheNamespaceOfTheThread(t *testing.T) {
	roottest.Require(t)
	path, err := netns.Create(netns.DefaultDir, "other")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Remove(path) })
	n, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	s := &sysctl.Tree{}
	set(t, s, key, "0")
	err = n.Do(func() error {
		set(t, s, key, "2")
		require(t, s, key, "2")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	require(t, s, key, "0")
}

func TestRootErrorsNameTheFile(t *testing.T) {
	roottest.Require(t)
	s := &sysctl.Tree{}
	_, err := s.Get("net/ipv4/conf/none/rp_filter")
	for _, err := range []error{err, s.Set("net/ipv4/conf/none/rp_filter", "1")} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/proc/sys/net/ipv4/conf/none/rp_filter") {
			t.Errorf("a missing parameter: %v", err)
		}
	}
	if err := s.Set(key, "x"); err == nil || !strings.Contains(err.Error(), "/proc/sys/"+key+": invalid argument") {
		t.Errorf("an invalid value: %v", err)
	}
}

// Nothing is in the table of mounts while trees are used, and their mounts do not become many.
func TestRootMountIsUnseen(t *testing.T) {
	roottest.Require(t)
	before := mounts(t)
	for range 200 {
		require(t, &sysctl.Tree{}, "net/ipv4/conf/lo/forwarding", "1")
	}
	if during := mounts(t); during != before {
		t.Errorf("mounts are\n%s\nwere\n%s", during, before)
	}
	sandbox.Eventually(t, "one mount of procfs", func() bool {
		runtime.GC() // which has those closed that nothing uses
		return procDescriptors(t) == 1
	})
}

func mounts(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// procDescriptors counts the descriptors that are the root of a mount that is nowhere.
func procDescriptors(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && target == "/" {
			n++
		}
	}
	return n
}

// A part of /proc/sys that an administrator protects, even while this process runs, is protected
// from it as well.
func TestRootProtectedParameters(t *testing.T) {
	roottest.Require(t)
	const forward = "net/ipv4/ip_forward"
	for name, mount := range map[string][]string{
		"all read only":        {"mount", "--bind", "-o", "ro", "/proc/sys", "/proc/sys"},
		"net read only":        {"mount", "--bind", "-o", "ro", "/proc/sys/net", "/proc/sys/net"},
		"one read only":        {"mount", "--bind", "-o", "ro", "/proc/sys/" + forward, "/proc/sys/" + forward},
		"some masked":          {"mount", "-t", "tmpfs", "-o", "ro", "tmpfs", "/proc/sys/net/ipv4"},
		"all masked, writable": {"mount", "-t", "tmpfs", "tmpfs", "/proc/sys"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sysctl.Tree{}
			set(t, s, forward, "1")
			sandbox.Run(t, mount...)
			err := (&sysctl.Tree{}).Set(forward, "0")
			sandbox.Run(t, "umount", mount[len(mount)-1])
			if err == nil {
				t.Error("it can be set")
			}
			require(t, s, forward, "1")
		})
	}
}

// TestRootBothWays: what listmount(2) tells is what the table of mounts tells. A kernel without it has the table alone.
func TestRootBothWays(t *testing.T) {
	roottest.Require(t)
	check := func(what string, want bool) {
		t.Helper()
		if plain := sysctl.IsPlainByTable(); plain != want {
			t.Errorf("%s: by the table plain is %t", what, plain)
		}
		if plain, ok := sysctl.ArePlain(); ok && plain != want {
			t.Errorf("%s: by listmount plain is %t", what, plain)
		}
	}
	check("at first", true)
	for _, point := range []string{"/proc/sys", "/proc/sys/net", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel"} {
		sandbox.Run(t, "mount", "--bind", point, point)
		check(point, point == "/proc/sys/kernel")
		sandbox.Run(t, "umount", point)
		check("without "+point, true)
	}
	for range 20 { // more than are asked for one by one
		sandbox.Run(t, "mount", "--bind", "/proc/sys/kernel", "/proc/sys/kernel")
	}
	check("many", true)
	if _, ok := sysctl.ArePlain(); ok {
		t.Error("so many mounts are known by listmount")
	}
	for range 20 {
		sandbox.Run(t, "umount", "/proc/sys/kernel")
	}
}

func TestRootProcBecomesReadOnly(t *testing.T) {
	roottest.Require(t)
	set(t, &sysctl.Tree{}, key, "1")
	sandbox.Run(t, "mount", "-o", "remount,bind,ro", "/proc")
	err := (&sysctl.Tree{}).Set(key, "0")
	sandbox.Run(t, "mount", "-o", "remount,bind,rw", "/proc")
	if err == nil {
		t.Error("it can be set")
	}
	require(t, &sysctl.Tree{}, key, "1")
}

func TestIsPlain(t *testing.T) {
	const proc = "22 26 0:21 / /proc rw,nosuid - proc proc rw\n"
	for point, want := range map[string]bool{
		"/proc":                      true,
		"/proc/sys/fs/binfmt_misc":   true,
		"/proc/sys/network":          true,
		"/mnt/proc/sys/net":          true,
		"/proc/sys":                  false,
		"/proc/sys/net":              false,
		"/proc/sys/net/ipv4/route":   false,
		"/proc/sys/net/ipv4/a\\040b": false,
	} {
		if got := sysctl.IsPlain(proc + "30 22 0:21 /sys " + point + " ro - proc proc rw\n"); got != want {
			t.Errorf("with a mount on %s: %t, want %t", point, got, want)
		}
	}
	if sysctl.IsPlain("22\n") {
		t.Error("a table that cannot be read is taken for one without mounts")
	}
}

// Landlock allows what is below a directory. A mount that is nowhere is below none.
func TestRootConfinedByPath(t *testing.T) {
	roottest.Require(t)
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		if err = confine("/"); err == nil {
			var s sysctl.Tree
			err = s.Set(key, "1")
		}
	}()
	<-done
	if err != nil {
		t.Error(err)
	}
}

// confine has Landlock allow the thread to read and write files below a directory.
func confine(dir string) error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE}
	ruleset, _, failed := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if failed != 0 {
		return failed
	}
	parent, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: attr.Handled_access_fs, Parent_fd: int32(parent)}
	if _, _, failed := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); failed != 0 {
		return failed
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, failed := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); failed != 0 {
		return failed
	}
	return errors.Join(unix.Close(int(ruleset)), unix.Close(parent))
}
