// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sysctl"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.Main(m.Run))
}

const key = "net/ipv4/conf/lo/rp_filter"

// tree is closed with the test.
func tree(t *testing.T) *sysctl.Tree {
	t.Helper()
	var s sysctl.Tree
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &s
}

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

func TestTreeIsProcSys(t *testing.T) {
	s := tree(t)
	for _, value := range []string{"2", "0"} {
		set(t, s, key, value)
		require(t, s, key, value)
		data, err := os.ReadFile("/proc/sys/" + key)
		if string(data) != value+"\n" || err != nil {
			t.Errorf("/proc/sys has %q, %v, want %q", data, err, value)
		}
	}
}

func TestTreeIsOfTheNamespaceOfTheThread(t *testing.T) {
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
	s := tree(t)
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

func TestErrorsNameTheFile(t *testing.T) {
	s := tree(t)
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

// Nothing is left in the table of mounts while a tree is open, and no descriptor afterwards.
func TestMountIsUnseen(t *testing.T) {
	before := mounts(t)
	var s sysctl.Tree
	require(t, &s, "net/ipv4/conf/lo/forwarding", "1")
	if during := mounts(t); during != before {
		t.Errorf("mounts are\n%s\nwere\n%s", during, before)
	}
	if n := procDescriptors(t); n != 1 {
		t.Errorf("%d descriptors of procfs are open, want that of the mount", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := procDescriptors(t); n != 0 {
		t.Errorf("%d descriptors of procfs are open after Close", n)
	}
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

// An administrator who makes /proc/sys read only protects it from this process as well.
func TestReadOnlyStaysReadOnly(t *testing.T) {
	sandbox.Run(t, "mount", "--bind", "-o", "ro", "/proc/sys", "/proc/sys")
	t.Cleanup(func() { sandbox.Run(t, "umount", "/proc/sys") })
	s := tree(t)
	require(t, s, "net/ipv4/conf/lo/forwarding", "1")
	if err := s.Set(key, "1"); !errors.Is(err, fs.ErrPermission) && (err == nil || !strings.Contains(err.Error(), "read-only")) {
		t.Errorf("set: %v, want an error of a file system that is read only", err)
	}
}
